#include "methods/device_code.h"

namespace gradwire {

const QuantCode& quant_aten();
const SignCode& sign_aten();
const LowRankCode& low_rank_aten();
const GatheredCode& gathered_aten();

namespace {

class AtenCode final : public DeviceCode {
 public:
  AtenCode() : DeviceCode(false, quant_aten(), sign_aten(), low_rank_aten(), gathered_aten()) {}

  bool is_zero(const at::Tensor& gradient) const override { return !gradient.any().item<bool>(); }
  bool all_finite(const at::Tensor& values) const override {
    return at::isfinite(values).all().item<bool>();
  }
  void roll_back(const at::Tensor& gradient, const at::Tensor& residual) const override {
    residual.sub_(gradient);
  }
  void add_scaled(const at::Tensor& a, float factor, const at::Tensor& b,
                  const at::Tensor& sum) const override {
    at::Tensor out = sum;
    at::add_out(out, a, b * factor);  // with `factor` as alpha, it would round once on some devices
  }

  void narrow(const at::Tensor& gradient, const at::Tensor& halves) const override {
    halves.copy_(gradient.view(-1));
  }
  void widen(const at::Tensor& halves, const at::Tensor& result) const override {
    result.view(-1).copy_(halves);
  }
  void average(const at::Tensor& slices, int64_t count) const override {
    const at::Tensor rows = slices.view({count, -1});
    at::Tensor sum = at::zeros({rows.size(1)}, rows.options().dtype(at::kFloat));
    for (int64_t i = 0; i < count; ++i) sum += rows[i];
    rows[0].copy_(sum.mul_(1.0F / static_cast<float>(count)));
  }
};

}  // namespace

const DeviceCode& aten_code() {
  static const AtenCode code;
  return code;
}

}  // namespace gradwire
