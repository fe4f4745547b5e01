#pragma once

#include <span>

namespace gradwire::kernels {

// Rolls back the addition of a gradient to a residual: residual -= gradient. The result is the
// earlier residual up to the rounding of the addition.
void roll_back(std::span<const float> gradient, std::span<float> residual);

}  // namespace gradwire::kernels
