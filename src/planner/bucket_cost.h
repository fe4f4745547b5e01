#pragma once

// What one bucket costs with one method: the shape of the method's exchange in numbers. A method's
// model has a function that computes it from a BucketView, with the functions below.

#include <array>
#include <vector>

#include "planner/network.h"
#include "planner/profile.h"

namespace gradwire::planner {

inline constexpr size_t kMostRounds = 2;

struct RoundCost {
  Collective collective = Collective::all_reduce;
  double bytes = 0;            // as for cost_of()
  double compute_seconds = 0;  // before it can start: encoding, or the work between the rounds
};

struct BucketCost {
  std::array<RoundCost, kMostRounds> rounds;
  size_t round_count = 1;
  double decode_seconds = 0;
};

// The parameters of a bucket, for loops over them.
class BucketParameters {
 public:
  BucketParameters(const Profile& profile, const Bucket& bucket)
      : all_(profile.parameters), indices_(bucket.parameters) {}

  struct Iterator {
    const ParameterShape& operator*() const { return all[*index]; }
    Iterator& operator++() {
      ++index;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return index != other.index; }

    const std::vector<ParameterShape>& all;
    std::vector<size_t>::const_iterator index;
  };
  Iterator begin() const { return {all_, indices_.begin()}; }
  Iterator end() const { return {all_, indices_.end()}; }

 private:
  const std::vector<ParameterShape>& all_;
  const std::vector<size_t>& indices_;
};

// A bucket in one step of a method. The seconds are those of memory traffic, of starting work on
// every parameter, and of `operations` in floating point.
class BucketView {
 public:
  BucketView(const Profile& profile, const Bucket& bucket, const MethodChoice& choice,
             int64_t workers, int kind_of_step, double gathered_ratio = 1);

  BucketParameters parameters() const { return {profile_, bucket_}; }
  double bytes() const { return bytes_; }  // of the gradient
  int64_t workers() const { return workers_; }
  // 0 or more, below MethodModel::kinds_of_steps.
  int kind_of_step() const { return kind_of_step_; }
  // Of what a worker hands in to what the model says: gradients decide how much is gathered.
  double gathered_ratio() const { return gathered_ratio_; }
  double option(const char* name) const { return choice_.number(name); }

  double encode(double operations = 0) const { return seconds(rate_.encode, operations); }
  double between(double operations = 0) const { return seconds(rate_.between, operations); }
  double decode(double operations = 0) const { return seconds(rate_.decode, operations); }
  double decode_payloads(double payload) const {
    return decode() + rate_.decode_payload * payload * static_cast<double>(workers_);
  }

 private:
  double seconds(double per_byte, double operations) const;

  const Profile& profile_;
  const Bucket& bucket_;
  const MethodChoice& choice_;
  CodingRate rate_;
  int64_t workers_;
  int kind_of_step_;
  double gathered_ratio_;
  double bytes_ = 0;
};

// What the parameters take up if each is cut into blocks, which take up `record_bytes` each.
double bytes_in_blocks(const BucketView& bucket, size_t block, size_t record_bytes);

BucketCost one_round(Collective collective, double bytes, double encode, double decode);
BucketCost two_rounds(const RoundCost& first, const RoundCost& second, double decode);
// Each worker gets a slice of everyone's buffer, and sends all what it made of the slice.
BucketCost by_slices(const BucketView& bucket, double bytes);
// Every worker's payload goes to all.
BucketCost gathered(const BucketView& bucket, double payload);
// A record of a gathered payload, besides what it holds.
inline constexpr double kRecordBytes = 8;

// The bucket's parameters as the low-rank methods see them: rows x columns, of which
// rank (rows + columns) travel where that is worth it. Rounded factors take two rounds, which
// together move what an all-reduce of the same bytes moves: the models take them for one.
struct LowRankSums {
  double uncompressed_bytes = 0;
  double p_bytes = 0;
  double q_bytes = 0;
  double product_operations = 0;
  double orthonormalise_p_operations = 0;
  double orthonormalise_q_operations = 0;
};
std::vector<ModelOption> low_rank_options();  // that it needs: rank, min_ratio, factor_bits
LowRankSums low_rank_sums(const BucketView& bucket);

// The cost by the method's model; where the profile was recorded with this method, by what was
// measured.
BucketCost bucket_cost(const Profile& profile, const Bucket& bucket, const MethodChoice& choice,
                       int64_t workers, int kind_of_step);

}  // namespace gradwire::planner
