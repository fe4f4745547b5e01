#include "kernels/scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradwire::kernels {

bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0.0F; });
}

// Without a way out of the loop, so that the compiler vectorises it.
bool all_finite(std::span<const float> values) {
  bool finite = true;
  for (const float value : values) {
    finite &= std::abs(value) <= std::numeric_limits<float>::max();
  }
  return finite;
}

}  // namespace gradwire::kernels
