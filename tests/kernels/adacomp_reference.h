#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/adacomp.h"

namespace gradwire::kernels {

struct AdacompReference {
  AdacompBlock block;
  std::vector<std::uint32_t> selection;
};

// Follows the definition bin by bin and element by element.
inline AdacompReference adacomp_select_reference(std::span<const float> gradient,
                                                 std::span<float> residual,
                                                 std::size_t bin_length) {
  AdacompReference result;
  for (std::size_t begin = 0; begin < gradient.size(); begin += bin_length) {
    const std::size_t end = std::min(begin + bin_length, gradient.size());
    float gmax = 0;
    bool finite = true;
    for (std::size_t i = begin; i < end; ++i) {
      const float total = residual[i] + gradient[i];
      finite = finite && std::isfinite(total);
      gmax = std::max(gmax, std::abs(total));
    }
    if (!finite) break;
    for (std::size_t i = begin; i < end; ++i) {
      residual[i] += gradient[i];
      const float ahead = residual[i] + gradient[i];
      if (gmax > 0 && std::abs(ahead) >= gmax) {
        result.selection.push_back(static_cast<std::uint32_t>(2 * i + (residual[i] < 0 ? 1 : 0)));
      }
    }
    result.block.done = end;
    result.block.gmax_sum += gmax;
  }
  result.block.selected = result.selection.size();
  return result;
}

}  // namespace gradwire::kernels
