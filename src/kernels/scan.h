#pragma once

#include <span>

namespace gradwire::kernels {

// Whether all elements are zero. -0 counts as zero, NaN does not. Returns at the first element that
// is not zero, so of a gradient in use it reads only a few elements.
bool all_zero(std::span<const float> values);

// True if no element is infinite or NaN.
bool all_finite(std::span<const float> values);

}  // namespace gradwire::kernels
