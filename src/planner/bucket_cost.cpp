#include "planner/bucket_cost.h"

#include <algorithm>
#include <cmath>

namespace gradwire::planner {
namespace {

struct Matrix {
  double rows;
  double columns;
  double rank;

  Matrix(const ParameterShape& parameter, double wanted_rank)
      : rows(static_cast<double>(parameter.shape[0])),
        columns(static_cast<double>(parameter.elements()) / rows),
        rank(std::min({wanted_rank, rows, columns})) {}

  // With fewer than 16 bits a factor travels in blocks of 64 elements of a column, each with a
  // scale of 2 bytes.
  double factor_bytes(double length, double bits) const {
    if (bits >= 16) return length * rank * bits / 8;
    return std::ceil(length / 64) * rank * (2 + 64 * bits / 8);
  }
  bool is_worth(double min_ratio, double bits) const {
    return (factor_bytes(rows, bits) + factor_bytes(columns, bits)) * min_ratio <=
           4 * rows * columns;
  }
  double product_operations() const { return 2 * rows * columns * rank; }
  // Gram's matrix and its use: two products of the factor with rank columns.
  static double orthonormalise_operations(double length, double rank) {
    return 4 * length * rank * rank;
  }
};

// Replaces a modelled time by the measured one, changed as the model says that another rank or
// number of workers changes it.
void calibrate(double& modelled, double measured, double modelled_where_measured) {
  const bool is_scalable = modelled_where_measured > 0;
  modelled = is_scalable ? measured * modelled / modelled_where_measured : measured;
}

}  // namespace

BucketView::BucketView(const Profile& profile, const Bucket& bucket, const MethodChoice& choice,
                       int64_t workers, int kind_of_step, double gathered_ratio)
    : profile_(profile),
      bucket_(bucket),
      choice_(choice),
      workers_(workers),
      kind_of_step_(kind_of_step),
      gathered_ratio_(gathered_ratio) {
  const auto known = profile.rates.find(choice.model->name);
  if (known != profile.rates.end()) rate_ = known->second;
  for (const ParameterShape& parameter : parameters()) bytes_ += parameter.bytes();
}

double BucketView::seconds(double per_byte, double operations) const {
  return per_byte * bytes_ + operations / profile_.flops_per_second +
         rate_.per_parameter * static_cast<double>(bucket_.parameters.size());
}

double bytes_in_blocks(const BucketView& bucket, size_t block, size_t record_bytes) {
  double bytes = 0;
  for (const ParameterShape& parameter : bucket.parameters()) {
    const size_t blocks = (static_cast<size_t>(parameter.elements()) + block - 1) / block;
    bytes += static_cast<double>(blocks * record_bytes);
  }
  return bytes;
}

BucketCost one_round(Collective collective, double bytes, double encode, double decode) {
  BucketCost cost;
  cost.rounds[0] = {collective, bytes, encode};
  cost.decode_seconds = decode;
  return cost;
}

BucketCost two_rounds(const RoundCost& first, const RoundCost& second, double decode) {
  return {.rounds = {first, second}, .round_count = 2, .decode_seconds = decode};
}

BucketCost by_slices(const BucketView& bucket, double bytes) {
  return two_rounds(
      {Collective::all_to_all, bytes, bucket.encode()},
      {Collective::all_gather, bytes / static_cast<double>(bucket.workers()), bucket.between()},
      bucket.decode());
}

BucketCost gathered(const BucketView& bucket, double payload) {
  const double bytes = bucket.gathered_ratio() * payload;
  return one_round(Collective::all_gather, bytes, bucket.encode(), bucket.decode_payloads(bytes));
}

std::vector<ModelOption> low_rank_options() {
  return {{"rank", int64_t{4}, 1, kUnlimited, "positive", "of the factors"},
          {"min_ratio", 2.0, 0, kUnlimited, "0 or more",
           "a matrix is compressed if it gets smaller by this"},
          {"factor_bits", int64_t{32}, 1, 32, "from 1 to 32",
           "bits of a factor's element: 32 for fp32, 16 for bf16, 8 for int8, 4 for int4"}};
}

LowRankSums low_rank_sums(const BucketView& bucket) {
  const double rank = bucket.option("rank");
  const double min_ratio = bucket.option("min_ratio");
  const double bits = bucket.option("factor_bits");
  LowRankSums sums;
  for (const ParameterShape& parameter : bucket.parameters()) {
    if (parameter.shape.size() < 2 || !Matrix(parameter, rank).is_worth(min_ratio, bits)) {
      sums.uncompressed_bytes += parameter.bytes();
      continue;
    }
    const Matrix matrix(parameter, rank);
    sums.p_bytes += matrix.factor_bytes(matrix.rows, bits);
    sums.q_bytes += matrix.factor_bytes(matrix.columns, bits);
    sums.product_operations += matrix.product_operations();
    sums.orthonormalise_p_operations += Matrix::orthonormalise_operations(matrix.rows, matrix.rank);
    sums.orthonormalise_q_operations +=
        Matrix::orthonormalise_operations(matrix.columns, matrix.rank);
  }
  return sums;
}

BucketCost bucket_cost(const Profile& profile, const Bucket& bucket, const MethodChoice& choice,
                       int64_t workers, int kind_of_step) {
  const auto modelled = [&](const MethodChoice& of, int64_t among, double gathered_ratio) {
    return of.model->cost({profile, bucket, of, among, kind_of_step, gathered_ratio});
  };
  const auto& measured = profile.measured;
  if (!measured || measured->choice.model->name != choice.model->name) {
    return modelled(choice, workers, 1);
  }
  const auto where_measured = [&](double gathered_ratio) {
    return modelled(measured->choice, measured->workers, gathered_ratio);
  };
  // It depends on the gradients; what is not gathered follows from shapes alone.
  const double gathered_ratio =
      bucket.gathered_bytes > 0 ? bucket.gathered_bytes / where_measured(1).rounds[0].bytes : 1;
  const BucketCost seen = where_measured(gathered_ratio);
  BucketCost cost = modelled(choice, workers, gathered_ratio);
  const CodingSeconds& seconds = bucket.measured;
  calibrate(cost.rounds[0].compute_seconds, seconds.encode, seen.rounds[0].compute_seconds);
  calibrate(cost.rounds[1].compute_seconds, seconds.between, seen.rounds[1].compute_seconds);
  calibrate(cost.decode_seconds, seconds.decode, seen.decode_seconds);
  return cost;
}

}  // namespace gradwire::planner
