#pragma once

#include <span>

namespace gradwire::kernels {

// Subtracts a gradient from the residual that it was added to: residual -= gradient. This restores
// the earlier residual up to the rounding of the addition.
void take_back(std::span<const float> gradient, std::span<float> residual);

}  // namespace gradwire::kernels
