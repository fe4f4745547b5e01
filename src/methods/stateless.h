#pragma once

#include "methods/device_path.h"
#include "methods/method.h"

namespace gradwire {

// The state of a parameter whose method remembers nothing from step to step.
class StatelessParameter final : public ParameterState {
 public:
  explicit StatelessParameter(const at::Tensor& tensor) : kernels(takes_kernels(tensor)) {}
  std::vector<StateTensor> tensors() override { return {}; }

  bool kernels;
};

}  // namespace gradwire
