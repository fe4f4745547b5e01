#include "methods/low_rank.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "methods/stable_hash.h"

namespace gradwire {

// At equal bytes a higher rank in fewer bits loses less (docs/accuracy.md).
std::vector<OptionSpec> low_rank_options(int64_t default_rank) {
  const double unbounded = std::numeric_limits<double>::infinity();
  return {integer_option("rank", default_rank, 1), number_option("min_ratio", 2, 0, unbounded),
          integer_option("seed", 0, std::numeric_limits<int64_t>::min()),
          choice_option("dtype", {"fp32", "bf16", "int8", "int4"}, "int4"),
          boolean_option("error_feedback", true)};
}

Facts low_rank_facts(const OptionMap& options) {
  Facts facts = delayed_facts(options);
  facts.model_options["factor_bits"] = factor_bits(factor_type(options));
  return facts;
}

std::vector<Variant> low_rank_variants(const std::string& method) {
  const auto options = [](int64_t rank, const char* dtype, double min_ratio = 2) {
    return OptionMap{{"rank", rank}, {"dtype", std::string(dtype)}, {"min_ratio", min_ratio}};
  };
  return {{method + "-published", options(4, "fp32")},
          {method + "-bf16", options(4, "bf16")},
          {method + "-int8", options(4, "int8")},
          {method + "-int4", options(4, "int4")},
          {method + "-rank-32", options(32, "fp32", 1)},
          {method + "-every-matrix", options(2, "fp32", 0)}};
}

namespace {

// A generator of its own: the user's random numbers stay what they are without us. Made on the CPU,
// so that unlike devices draw alike.
at::Tensor drawn(int64_t rows, int64_t rank, uint64_t seed, at::Device device) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({rows, rank}, generator, at::TensorOptions(at::kFloat)).to(device);
}

}  // namespace

LowRankState::LowRankState(int64_t rows_, int64_t columns_, int64_t rank_, bool error_feedback,
                           uint64_t seed, const at::TensorOptions& options)
    : ParameterState(options.device()),
      rows(rows_),
      columns(columns_),
      rank(rank_),
      p(at::zeros({rows, rank}, options)),
      q(drawn(columns, rank, seed, options.device())),
      residual_(error_feedback ? at::zeros({rows, columns}, options) : at::Tensor()) {}

// A copy where something is pending: a step under way may still have to be rolled back.
at::Tensor LowRankState::residual() const {
  if (!pending_.left.defined()) return residual_;
  at::Tensor settled = residual_.clone();
  code.low_rank.settle(settled, pending_);
  return settled;
}

std::vector<StateTensor> LowRankState::tensors() {
  std::vector<StateTensor> kept = {{"p", StateTensor::Role::shared, p},
                                   {"q", StateTensor::Role::shared, q}};
  if (residual_.defined()) {
    code.low_rank.settle(residual_, pending_);
    pending_ = {};
    kept.push_back({"residual", StateTensor::Role::residual, residual_});
  }
  return kept;
}

at::Tensor LowRankState::orthonormalised(const at::Tensor& factor) const {
  at::Tensor basis = factor.clone();
  code.low_rank.orthonormalise(basis);
  return basis;
}

bool LowRankState::encode(Side side, const at::Tensor& gradient, const at::Tensor& basis,
                          const at::Tensor& product) {
  if (residual_.defined()) {
    return code.low_rank.encode(side, gradient, residual_, std::exchange(pending_, {}), basis,
                                product);
  }
  code.low_rank.multiply(side, gradient, basis, product);
  const bool finite = code.all_finite(product);
  if (finite) gradient_ = gradient;
  return finite;
}

void LowRankState::multiply_transposed(const at::Tensor& left, const at::Tensor& right) const {
  code.low_rank.multiply(Side::right, residual_.defined() ? residual_ : gradient_, left, right);
}

void LowRankState::subtract(const FactorPair& product) {
  gradient_.reset();
  if (!residual_.defined()) return;
  // Without an encode, what the step before has left is still pending.
  if (pending_.left.defined()) code.low_rank.settle(residual_, pending_);
  pending_ = product;
}

void LowRankState::roll_back(const Slot& slot) {
  gradient_.reset();
  pending_ = {};
  if (residual_.defined()) code.roll_back(as_matrix(slot.load()), residual_);
}

std::unique_ptr<LowRankState> make_low_rank_state(const Parameter& parameter,
                                                  const OptionMap& options) {
  const at::Tensor& tensor = parameter.tensor;
  if (tensor.dim() < 2) return nullptr;
  const int64_t rows = tensor.size(0);
  const int64_t columns = tensor.numel() / rows;
  const int64_t rank = std::min({std::get<int64_t>(options.at("rank")), rows, columns});
  const double min_ratio = std::get<double>(options.at("min_ratio"));
  const FactorType type = factor_type(options);
  const int64_t sent = factor_bytes(type, rows, rank) + factor_bytes(type, columns, rank);
  const auto gradient_bytes =
      static_cast<double>(sizeof(float)) * static_cast<double>(rows * columns);
  if (static_cast<double>(sent) * min_ratio > gradient_bytes) return nullptr;
  const auto fp32 = tensor.options().dtype(at::kFloat).requires_grad(false);
  const auto seed =
      static_cast<uint64_t>(std::get<int64_t>(options.at("seed"))) ^ stable_hash(parameter.name);
  return std::make_unique<LowRankState>(rows, columns, rank,
                                        std::get<bool>(options.at("error_feedback")), seed, fp32);
}

}  // namespace gradwire
