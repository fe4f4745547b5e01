#include <limits>

#include "methods/device_code.h"

namespace gradwire {
namespace {

class LowRankAten final : public LowRankCode {
 public:
  // Every infinity or NaN in the gradient makes one in the product. The residual is not touched
  // before that is known: inf − inf could not be rolled back.
  bool encode(Side side, const at::Tensor& gradient, const at::Tensor& residual,
              const FactorPair& pending, const at::Tensor& basis,
              const at::Tensor& product) const override {
    settle(residual, pending);
    const at::Tensor target = residual + gradient;
    multiply(side, target, basis, product);
    if (!at::isfinite(product).all().item<bool>()) return false;
    residual.copy_(target);
    return true;
  }

  void multiply(Side side, const at::Tensor& matrix, const at::Tensor& basis,
                const at::Tensor& product) const override {
    product.copy_((side == Side::left ? matrix : matrix.t()).mm(basis));
  }

  void settle(const at::Tensor& residual, const FactorPair& pending) const override {
    if (!pending.left.defined()) return;
    residual.addmm_(pending.left, pending.right.t(), /*beta=*/1, /*alpha=*/-1);
  }

  void multiply_factors(const FactorPair& factors, double factor,
                        const at::Tensor& result) const override {
    at::Tensor out = result;
    at::mm_out(out, factors.left, (factors.right * factor).t());
  }

  // Householder QR gives a full orthonormal basis whatever the rank of its input. Scaled to a
  // largest element of one, because the squares of tiny or huge factors would leave the range.
  void orthonormalise(const at::Tensor& factor) const override {
    const at::Tensor wide = factor.to(at::kDouble);
    const at::Tensor largest = wide.abs().amax().clamp_min(std::numeric_limits<double>::min());
    factor.copy_(std::get<0>(at::linalg_qr(wide / largest, "reduced")));
  }
};

const LowRankAten kLowRankAten;

}  // namespace

const LowRankCode& low_rank_aten() { return kLowRankAten; }

}  // namespace gradwire
