#pragma once

#include <span>

namespace gradwire::kernels {

// sum = a + factor · b, the product rounded before it is added. `sum` may be a or b.
void add_scaled(std::span<const float> a, float factor, std::span<const float> b,
                std::span<float> sum);

}  // namespace gradwire::kernels
