#include "planner/bucket_cost.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace gradwire::planner {
namespace {

// Payloads travel with some room to spare, because their size is agreed one step ahead:
// src/methods/gathered.h.
constexpr double kTopkRoom = 1 + 1.0 / 64;
constexpr double kAdacompRoom = 1 + 1.0 / 8;
constexpr double kRecordBytes = 8;
// Of a Rice code over the entropy, as docs/wire_format.md measures it.
constexpr double kPositionOverhead = 1.02;

// A parameter as the low-rank methods see it: rows × columns, of which rank·(rows + columns)
// travel.
struct Matrix {
  double rows;
  double columns;
  double rank;

  Matrix(const ParameterShape& parameter, int64_t wanted_rank)
      : rows(static_cast<double>(parameter.shape[0])),
        columns(static_cast<double>(parameter.elements()) / rows),
        rank(std::min({static_cast<double>(wanted_rank), rows, columns})) {}

  bool is_worth(double min_ratio) const {
    return rank * (rows + columns) * min_ratio <= rows * columns;
  }
  double product_flops() const { return 2 * rows * columns * rank; }
  // Gram's matrix and its use: two products of the factor with rank columns.
  static double orthonormalise_flops(double length, double rank) {
    return 4 * length * rank * rank;
  }
};

struct LowRankSums {
  double uncompressed_bytes = 0;
  double p_bytes = 0;
  double q_bytes = 0;
  double product_flops = 0;
  double orthonormalise_p_flops = 0;
  double orthonormalise_q_flops = 0;
};

// The parts of a bucket's cost that every method has.
class BucketView {
 public:
  BucketView(const Profile& profile, const Bucket& bucket, const MethodChoice& choice)
      : profile_(profile),
        bucket_(bucket),
        choice_(choice),
        rate_(profile.rates[index_of(choice.method)]) {
    for (const size_t i : bucket.parameters) bytes_ += profile.parameters[i].bytes();
  }

  double bytes() const { return bytes_; }
  double encode(double flops = 0) const { return seconds(rate_.encode, flops); }
  double between(double flops = 0) const { return seconds(rate_.between, flops); }
  double decode(double flops = 0) const { return seconds(rate_.decode, flops); }
  double decode_payloads(double payload, int64_t workers) const {
    return decode() + rate_.decode_payload * payload * static_cast<double>(workers);
  }

  double topk_payload() const {
    const double density = choice_.density;
    const double entropy = -(density * std::log2(density) + (1 - density) * std::log2(1 - density));
    const double bits = 32 + (density < 1 ? kPositionOverhead * entropy / density : 0);
    double payload = 0;
    for (const size_t i : bucket_.parameters) {
      const auto elements = static_cast<double>(profile_.parameters[i].elements());
      payload += kRecordBytes + std::max(1.0, std::floor(density * elements + 0.5)) * bits / 8;
    }
    return kTopkRoom * payload;
  }

  double adacomp_payload() const {
    double payload = 0;
    for (const size_t i : bucket_.parameters) {
      const ParameterShape& parameter = profile_.parameters[i];
      payload +=
          kRecordBytes + parameter.bytes() /
                             (parameter.shape.size() >= 3 ? choice_.conv_rate : choice_.dense_rate);
    }
    return kAdacompRoom * payload;
  }

  double sign_bits() const {
    double payload = 0;
    for (const size_t i : bucket_.parameters) {
      payload += std::ceil(static_cast<double>(profile_.parameters[i].elements()) / 8);
    }
    return payload;
  }
  double sign_payload() const {
    return sign_bits() + kRecordBytes * static_cast<double>(bucket_.parameters.size());
  }

  LowRankSums low_rank() const {
    LowRankSums sums;
    for (const size_t i : bucket_.parameters) {
      const ParameterShape& parameter = profile_.parameters[i];
      if (parameter.shape.size() < 2) {
        sums.uncompressed_bytes += parameter.bytes();
        continue;
      }
      const Matrix matrix(parameter, choice_.rank);
      if (!matrix.is_worth(choice_.min_ratio)) {
        sums.uncompressed_bytes += parameter.bytes();
        continue;
      }
      sums.p_bytes += 4 * matrix.rows * matrix.rank;
      sums.q_bytes += 4 * matrix.columns * matrix.rank;
      sums.product_flops += matrix.product_flops();
      sums.orthonormalise_p_flops += Matrix::orthonormalise_flops(matrix.rows, matrix.rank);
      sums.orthonormalise_q_flops += Matrix::orthonormalise_flops(matrix.columns, matrix.rank);
    }
    return sums;
  }

 private:
  double seconds(double per_byte, double flops) const {
    return per_byte * bytes_ + flops / profile_.flops_per_second +
           rate_.per_parameter * static_cast<double>(bucket_.parameters.size());
  }

  const Profile& profile_;
  const Bucket& bucket_;
  const MethodChoice& choice_;
  const CodingRate& rate_;
  double bytes_ = 0;
};

BucketCost one_round(Collective collective, double bytes, double encode, double decode) {
  BucketCost cost;
  cost.rounds[0] = {collective, bytes, encode};
  cost.decode_seconds = decode;
  return cost;
}

BucketCost two_rounds(const RoundCost& first, const RoundCost& second, double decode) {
  return {.rounds = {first, second}, .round_count = 2, .decode_seconds = decode};
}

// Each worker gets a slice of everyone's buffer, and sends all what it made of the slice.
BucketCost by_slices(const BucketView& bucket, double bytes, int64_t workers) {
  return two_rounds(
      {Collective::all_to_all, bytes, bucket.encode()},
      {Collective::all_gather, bytes / static_cast<double>(workers), bucket.between()},
      bucket.decode());
}

// Products: P; then Q; then the result and what it leaves in the residual.
BucketCost powersgd(const BucketView& bucket) {
  const LowRankSums sums = bucket.low_rank();
  const RoundCost first = {Collective::all_reduce, sums.uncompressed_bytes + sums.p_bytes,
                           bucket.encode(sums.product_flops)};
  if (sums.q_bytes == 0) {
    return one_round(first.collective, first.bytes, first.compute_seconds, bucket.decode());
  }
  return two_rounds(first,
                    {Collective::all_reduce, sums.q_bytes,
                     bucket.between(sums.product_flops + sums.orthonormalise_p_flops)},
                    bucket.decode(2 * sums.product_flops));
}

// Products: the moving factor and what it leaves in the residual; then the result.
BucketCost acpsgd(const BucketView& bucket, AcpsgdStep step) {
  const LowRankSums sums = bucket.low_rank();
  const bool p_moves = step == AcpsgdStep::p;
  const double orthonormalise = p_moves ? sums.orthonormalise_q_flops : sums.orthonormalise_p_flops;
  return one_round(
      Collective::all_reduce, sums.uncompressed_bytes + (p_moves ? sums.p_bytes : sums.q_bytes),
      bucket.encode(2 * sums.product_flops + orthonormalise), bucket.decode(sums.product_flops));
}

BucketCost gathered(const BucketView& bucket, double payload, int64_t workers) {
  return one_round(Collective::all_gather, payload, bucket.encode(),
                   bucket.decode_payloads(payload, workers));
}

// What methods gather is modelled, and multiplied by `gathers`.
BucketCost modelled_cost(const Profile& profile, const Bucket& bucket, const MethodChoice& choice,
                         int64_t workers, AcpsgdStep step, double gathers = 1) {
  const BucketView view(profile, bucket, choice);
  switch (choice.method) {
    case Method::allreduce:
      return one_round(Collective::all_reduce, view.bytes(), view.encode(), view.decode());
    case Method::half:
      return by_slices(view, view.bytes() / 2, workers);
    case Method::powersgd:
      return powersgd(view);
    case Method::acpsgd:
      return acpsgd(view, step);
    case Method::topk:
      return gathered(view, gathers * view.topk_payload(), workers);
    case Method::adacomp:
      return gathered(view, gathers * view.adacomp_payload(), workers);
    case Method::sign:
      return gathered(view, gathers * view.sign_payload(), workers);
    case Method::sign_vote:
      return by_slices(view, view.sign_bits(), workers);
  }
  throw std::logic_error("not a method");
}

// Replaces a modelled time by the measured one, changed as the model says that another rank or
// number of workers changes it.
void calibrate(double& modelled, double measured, double modelled_where_measured) {
  const bool is_scalable = modelled_where_measured > 0;
  modelled = is_scalable ? measured * modelled / modelled_where_measured : measured;
}

}  // namespace

BucketCost bucket_cost(const Profile& profile, const Bucket& bucket, const MethodChoice& choice,
                       int64_t workers, AcpsgdStep step) {
  const auto& measured = profile.measured;
  if (!measured || measured->choice.method != choice.method) {
    return modelled_cost(profile, bucket, choice, workers, step);
  }
  const auto where_measured = [&](double gathers) {
    return modelled_cost(profile, bucket, measured->choice, measured->workers, step, gathers);
  };
  // It depends on the gradients; what is not gathered follows from shapes alone.
  const double gathers =
      bucket.gathered_bytes > 0 ? bucket.gathered_bytes / where_measured(1).rounds[0].bytes : 1;
  const BucketCost seen = where_measured(gathers);
  BucketCost cost = modelled_cost(profile, bucket, choice, workers, step, gathers);
  const CodingSeconds& seconds = bucket.measured;
  calibrate(cost.rounds[0].compute_seconds, seconds.encode, seen.rounds[0].compute_seconds);
  calibrate(cost.rounds[1].compute_seconds, seconds.between, seen.rounds[1].compute_seconds);
  calibrate(cost.decode_seconds, seconds.decode, seen.decode_seconds);
  return cost;
}

}  // namespace gradwire::planner
