#include "methods/low_rank.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>

#include "methods/device_path.h"
#include "methods/stable_hash.h"

namespace gradwire {

std::vector<OptionSpec> low_rank_options() {
  const double unbounded = std::numeric_limits<double>::infinity();
  return {integer_option("rank", 4, 1), number_option("min_ratio", 2, 0, unbounded),
          integer_option("seed", 0, std::numeric_limits<int64_t>::min()),
          choice_option("dtype", {"fp32", "bf16"}), boolean_option("error_feedback", true)};
}

namespace {

// A generator of its own: the user's random numbers stay what they are without us. Made on the CPU,
// so that unlike devices draw alike.
at::Tensor drawn(int64_t rows, int64_t rank, uint64_t seed, at::Device device) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({rows, rank}, generator, at::TensorOptions(at::kFloat)).to(device);
}

}  // namespace

LowRankState::LowRankState(int64_t rows_, int64_t columns_, int64_t rank_, bool error_feedback_,
                           uint64_t seed, std::unique_ptr<ErrorMatrix> matrix_,
                           const at::TensorOptions& options)
    : rows(rows_),
      columns(columns_),
      rank(rank_),
      error_feedback(error_feedback_),
      matrix(std::move(matrix_)),
      p(at::zeros({rows, rank}, options)),
      q(drawn(columns, rank, seed, options.device())) {}

at::Tensor LowRankState::residual() const {
  return error_feedback ? matrix->residual() : at::Tensor();
}

std::vector<StateTensor> LowRankState::tensors() {
  // Pending products refer to the factors of the last step: copies may be overwritten, those may
  // not.
  p = p.clone();
  q = q.clone();
  return {{"p", StateTensor::Role::shared, p},
          {"q", StateTensor::Role::shared, q},
          {"residual", StateTensor::Role::residual, matrix->residual()}};
}

void LowRankState::subtract(const at::Tensor& left, const at::Tensor& right) {
  if (error_feedback) {
    matrix->subtract(left, right);
  } else {
    matrix->residual().zero_();
  }
}

void LowRankState::cancel(const at::Tensor& gradient) {
  if (error_feedback) {
    matrix->cancel(gradient);
  } else {
    matrix->residual().zero_();
  }
}

std::unique_ptr<LowRankState> make_low_rank_state(const Parameter& parameter,
                                                  const OptionMap& options) {
  const at::Tensor& tensor = parameter.tensor;
  if (tensor.dim() < 2) return nullptr;
  const int64_t rows = tensor.size(0);
  const int64_t columns = tensor.numel() / rows;
  const int64_t rank = std::min({std::get<int64_t>(options.at("rank")), rows, columns});
  const double min_ratio = std::get<double>(options.at("min_ratio"));
  if (static_cast<double>(rank * (rows + columns)) * min_ratio >
      static_cast<double>(tensor.numel())) {
    return nullptr;
  }
  const auto fp32 = tensor.options().dtype(at::kFloat).requires_grad(false);
  const auto seed =
      static_cast<uint64_t>(std::get<int64_t>(options.at("seed"))) ^ stable_hash(parameter.name);
  return std::make_unique<LowRankState>(
      rows, columns, rank, std::get<bool>(options.at("error_feedback")), seed,
      takes_kernels(tensor) ? make_kernel_error_matrix(rows, columns)
                            : make_aten_error_matrix(rows, columns, fp32),
      fp32);
}

at::Tensor orthonormalised(const at::Tensor& factor) {
  at::Tensor basis = factor.clone();
  orthonormalise(basis);
  return basis;
}

bool all_finite(const at::Tensor& values) { return at::isfinite(values).all().item<bool>(); }

}  // namespace gradwire
