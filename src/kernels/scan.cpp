#include "kernels/scan.h"

#include <algorithm>

namespace gradwire::kernels {

bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0.0F; });
}

}  // namespace gradwire::kernels
