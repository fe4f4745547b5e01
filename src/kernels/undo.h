#pragma once

#include <span>

namespace gradwire::kernels {

// Takes a gradient back out of the residual it was added to: residual -= gradient. Restores the
// earlier residual up to the rounding of the addition.
void take_back(std::span<const float> gradient, std::span<float> residual);

}  // namespace gradwire::kernels
