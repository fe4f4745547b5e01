#pragma once

#include <ATen/ATen.h>

#include <functional>

namespace gradwire {

// What the loss is multiplied by, as a GradScaler keeps it. Residuals are in its units.
class LossScale {
 public:
  // See Request::loss_scale; empty: the loss is not scaled.
  explicit LossScale(std::function<at::Tensor()> source) : source_(std::move(source)) {}

  double current() const { return current_; }
  // Reads the scale of the coming step. Returns what residuals must be multiplied by to follow it.
  double follow() {
    if (!source_) return change_to(1);
    if (!tensor_.defined()) tensor_ = source_();
    return tensor_.defined() ? change_to(tensor_.item<double>()) : 1;
  }
  // That of a loaded state.
  void set(double scale) { current_ = scale; }

 private:
  double change_to(double scale) {
    const double factor = scale / current_;
    current_ = scale;
    return factor;
  }

  std::function<at::Tensor()> source_;
  at::Tensor tensor_;  // the scaler updates it in place
  double current_ = 1;
};

}  // namespace gradwire
