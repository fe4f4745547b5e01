#pragma once

#include <ATen/ATen.h>

namespace gradwire {

// Whether a parameter on this tensor's device takes the kernels (CPU) or the same steps in ATen ops
// (any other device). Decided once per parameter, in Method::make_state.
bool takes_kernels(const at::Tensor& tensor);

// For tests, which have no other device: while it lives, parameters on the CPU take the ATen path
// too.
class ForceAtenPath {
 public:
  ForceAtenPath();
  ~ForceAtenPath();
  ForceAtenPath(const ForceAtenPath&) = delete;
  ForceAtenPath& operator=(const ForceAtenPath&) = delete;
};

}  // namespace gradwire
