#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire::kernels {

// How a parameter is quantised in blocks, and what its records take up (quant.h).
struct QuantFormat {
  int bits;           // 8, 4, 2 or 1
  std::size_t block;  // a multiple of 8, up to kLargestQuantBlock; multiples of 32 are fast

  constexpr std::size_t blocks(std::size_t elements) const {
    return (elements + block - 1) / block;
  }
  // Of one whole block.
  constexpr std::size_t record_bytes() const { return bytes(block); }
  // Of all records of a run of elements.
  constexpr std::size_t bytes(std::size_t elements) const {
    // A whole block fills its last byte.
    return sizeof(std::uint16_t) * blocks(elements) +
           (elements * static_cast<std::size_t>(bits) + 7) / 8;
  }
};

inline constexpr std::size_t kLargestQuantBlock = 4096;

}  // namespace gradwire::kernels
