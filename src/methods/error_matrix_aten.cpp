// The definition, in ATen ops: for any device, and to read before error_matrix_kernels.cpp.

#include <array>

#include "methods/error_matrix.h"

namespace gradwire {
namespace {

class AtenErrorMatrix final : public ErrorMatrix {
 public:
  AtenErrorMatrix(int64_t rows, int64_t columns, const at::TensorOptions& options)
      : values_(at::zeros({rows, columns}, options)) {}

  bool encode_left(const at::Tensor& gradient, const at::Tensor& right, at::Tensor& left) override {
    const at::Tensor target = values_ + gradient;
    at::mm_out(left, target, right);
    return keep_if_finite(target, left);
  }
  bool encode_right(const at::Tensor& gradient, const at::Tensor& left,
                    at::Tensor& right) override {
    const at::Tensor target = values_ + gradient;
    at::mm_out(right, target.t(), left);
    return keep_if_finite(target, right);
  }
  void multiply_transposed(const at::Tensor& left, at::Tensor& right) override {
    at::mm_out(right, values_.t(), left);
  }
  void subtract(const at::Tensor& left, const at::Tensor& right) override {
    subtracted_ = {left, right};
    values_.addmm_(left, right.t(), /*beta=*/1, /*alpha=*/-1);
  }
  void cancel(const at::Tensor& gradient) override {
    if (subtracted_[0].defined()) values_.addmm_(subtracted_[0], subtracted_[1].t());
    values_.sub_(gradient);
  }
  at::Tensor& residual() override { return values_; }

 private:
  // Every infinity or NaN in the gradient makes one in the product. E is not touched before that is
  // known: inf − inf could not be undone.
  bool keep_if_finite(const at::Tensor& target, const at::Tensor& product) {
    if (!at::isfinite(product).all().item<bool>()) return false;
    values_.copy_(target);
    subtracted_ = {};
    return true;
  }

  at::Tensor values_;
  std::array<at::Tensor, 2> subtracted_;  // by this step: left, right
};

}  // namespace

std::unique_ptr<ErrorMatrix> make_aten_error_matrix(int64_t rows, int64_t columns,
                                                    const at::TensorOptions& options) {
  return std::make_unique<AtenErrorMatrix>(rows, columns, options);
}

}  // namespace gradwire
