#pragma once

#include <span>

namespace gradwire::kernels {

// True if no element differs from zero (-0 counts as zero, NaN does not). Returns at the first
// element that does, so on a gradient in use it reads a handful of elements.
bool all_zero(std::span<const float> values);

}  // namespace gradwire::kernels
