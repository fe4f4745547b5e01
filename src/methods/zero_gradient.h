#pragma once

#include <ATen/ATen.h>

namespace gradwire {

// No element differs from zero: so looks the gradient of a parameter that this worker did not use,
// which then abstains. The tensor is contiguous fp32.
bool is_zero(const at::Tensor& gradient);

}  // namespace gradwire
