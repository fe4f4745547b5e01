#include "methods/low_rank.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>

#include "methods/stable_hash.h"

namespace gradwire {
namespace {

bool has_float_gradient(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

}  // namespace

std::vector<OptionSpec> low_rank_options() {
  const double unbounded = std::numeric_limits<double>::infinity();
  return {integer_option("rank", 4, 1), number_option("min_ratio", 2, 0, unbounded),
          integer_option("seed", 0, std::numeric_limits<int64_t>::min()),
          boolean_option("error_feedback", true)};
}

LowRankState::LowRankState(int64_t rows_, int64_t columns_, int64_t rank_, bool error_feedback,
                           const at::TensorOptions& options)
    : rows(rows_),
      columns(columns_),
      rank(rank_),
      error(error_feedback ? at::zeros({rows, columns}, options) : at::Tensor()),
      p(at::zeros({rows, rank}, options)),
      q(at::zeros({columns, rank}, options)) {}

std::map<std::string, at::Tensor> LowRankState::tensors() const {
  std::map<std::string, at::Tensor> named = {{"p", p}, {"q", q}};
  if (error.defined()) named["residual"] = error;
  return named;
}

std::unique_ptr<LowRankState> make_low_rank_state(const Parameter& parameter,
                                                  const OptionMap& options) {
  const at::Tensor& tensor = parameter.tensor;
  if (tensor.dim() < 2 || tensor.numel() == 0 || !has_float_gradient(tensor)) return nullptr;
  const int64_t rows = tensor.size(0);
  const int64_t columns = tensor.numel() / rows;
  const int64_t rank = std::min({std::get<int64_t>(options.at("rank")), rows, columns});
  const double min_ratio = std::get<double>(options.at("min_ratio"));
  if (static_cast<double>(rank * (rows + columns)) * min_ratio >
      static_cast<double>(tensor.numel())) {
    return nullptr;
  }
  auto state = std::make_unique<LowRankState>(
      rows, columns, rank, std::get<bool>(options.at("error_feedback")),
      tensor.options().dtype(at::kFloat).requires_grad(false));
  // A generator of its own: the user's random numbers stay what they are without us. Made on the
  // CPU, so that unlike devices start alike.
  const auto seed = static_cast<uint64_t>(std::get<int64_t>(options.at("seed")));
  at::Generator generator = at::detail::createCPUGenerator(seed ^ stable_hash(parameter.name));
  state->q.copy_(at::randn({columns, rank}, generator, at::TensorOptions(at::kFloat)));
  return state;
}

void orthonormalise(at::Tensor& factor) {
  // Householder QR gives a full orthonormal basis whatever the rank of its input. In double, and
  // scaled to a largest element of one, because factors of tiny or huge gradients would leave
  // fp32's range.
  const at::Tensor wide = factor.to(at::kDouble);
  const at::Tensor largest = wide.abs().amax().clamp_min(std::numeric_limits<double>::min());
  factor.copy_(std::get<0>(at::linalg_qr(wide / largest, "reduced")));
}

}  // namespace gradwire
