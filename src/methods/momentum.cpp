#include "methods/momentum.h"

#include <utility>

namespace gradwire {
namespace {

class MomentumState final : public ParameterState {
 public:
  MomentumState(std::unique_ptr<ParameterState> of_method, const at::Tensor& parameter,
                double momentum)
      : ParameterState(parameter.device()),
        of_method_(std::move(of_method)),
        momentum_(static_cast<float>(momentum)),
        velocity_(zero_residual(parameter, true)),
        common_(zero_residual(parameter, true)),
        next_(zero_residual(parameter, true)) {}

  std::vector<StateTensor> tensors() override {
    std::vector<StateTensor> all = of_method_->tensors();
    all.push_back({"velocity", StateTensor::Role::velocity, velocity_});
    all.push_back({"common_velocity", StateTensor::Role::common_velocity, common_});
    return all;
  }

  // K.
  at::Tensor residual() const override {
    at::Tensor kept = of_method_->residual();
    if (!kept.defined()) return kept;
    return (velocity_ - common_).mul_(momentum_).add_(kept.view_as(common_), 1 - momentum_);
  }

  Slot before_exchange(const Slot& slot) override {
    const at::Tensor gradient = slot.load();
    contributes_ = !code.is_zero(gradient);
    if (contributes_) {
      code.add_scaled(gradient, momentum_, velocity_, next_);
    } else {
      next_.zero_();
    }
    return {slot.parameter, of_method_.get(), next_};
  }

  void after_exchange(const Slot& slot) override {
    if (!code.all_finite(next_)) return slot.store(next_);
    if (contributes_) code.add_scaled(slot.load(), momentum_, velocity_, velocity_);
    if (code.is_zero(next_)) return slot.store(next_);
    const at::Tensor result = slot.result();
    code.add_scaled(next_, -momentum_, common_, result);
    slot.store(result);
    is_pending_ = true;
  }

  void end_step(bool counts) override {
    if (std::exchange(is_pending_, false) && counts) std::swap(common_, next_);
  }

 private:
  std::unique_ptr<ParameterState> of_method_;
  float momentum_;
  at::Tensor velocity_;  // u
  at::Tensor common_;    // s of the last step that counts
  // In an exchange, what the method takes as the gradient: u as it will be. Then its result, s.
  at::Tensor next_;
  bool contributes_ = false;  // to the exchange under way
  bool is_pending_ = false;   // next_ is s of a step of which is not known yet whether it counts
};

}  // namespace

OptionSpec momentum_option() {
  return {"momentum", 0.0, "in [0, 1), that of the SGD which takes the gradients",
          [](const OptionValue& value) {
            const auto* number = std::get_if<double>(&value);
            return number != nullptr && *number >= 0 && *number < 1;
          }};
}

double momentum_of(const OptionMap& options) {
  const auto momentum = options.find("momentum");
  return momentum == options.end() ? 0 : std::get<double>(momentum->second);
}

std::unique_ptr<ParameterState> with_momentum(std::unique_ptr<ParameterState> state,
                                              const Parameter& parameter, double momentum) {
  if (state == nullptr || momentum == 0) return state;
  return std::make_unique<MomentumState>(std::move(state), parameter.tensor, momentum);
}

}  // namespace gradwire
