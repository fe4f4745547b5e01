#include "kernels/add_scaled.h"

#include <cstddef>

namespace gradwire::kernels {

void add_scaled(std::span<const float> a, float factor, std::span<const float> b,
                std::span<float> sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + factor * b[i];
}

}  // namespace gradwire::kernels
