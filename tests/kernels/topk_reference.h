#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace gradwire::kernels::reference {

// Sorts everything by falling magnitude, keeps the order of equals, and returns the indices of the
// first k, ascending.
inline std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t k) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace gradwire::kernels::reference
