#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/low_rank.h"

// How the low-rank kernels cut a matrix into pieces that stay in cache.
//
// A *panel* is a run of columns. Its part of a right factor is packed transposed: one line per
// column of the factor, so that every inner loop runs along the contiguous direction of the
// gradient and vectors need no knowledge of the rank. A *tile* is a few rows of a panel; it is
// computed, stored and multiplied while it is in cache.
namespace gradwire::kernels::low_rank {

// One cache line. Pointers into scratch are aligned to it.
inline constexpr std::size_t kLineFloats = 16;
// Tile widths are padded to whole pairs of vectors of the widest target (AVX-512).
inline constexpr std::size_t kWidthPadding = 32;
// 384 columns x 12 rows of tile and the four packed lines in use share the first-level cache.
inline constexpr std::size_t kPanelColumns = 384;
// Short tiles stay in the first-level cache while `rank / 4` sweeps of dot products read them.
inline constexpr std::size_t kLeftTileRows = 12;
// Tall tiles, because accumulators of the right product are loaded and stored once per tile.
inline constexpr std::size_t kRightTileRows = 48;

inline constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline constexpr std::size_t padded_width(std::size_t columns) {
  return round_up(columns, kWidthPadding);
}

// An odd number of cache lines, so that lines below each other fall into different cache sets.
inline constexpr std::size_t line_stride(std::size_t columns) {
  return padded_width(columns) + kLineFloats;
}

// The width of all panels of a matrix but the last. Depends on nothing but the number of columns:
// the order of summation follows the panels.
inline std::size_t panel_columns(std::size_t columns) {
  const std::size_t panels = (columns + kPanelColumns - 1) / kPanelColumns;
  return panels == 0 ? 0 : round_up((columns + panels - 1) / panels, kLineFloats);
}

// The parts of a caller's scratch.
struct Scratch {
  Scratch(const Shape& shape, std::span<float> buffer) {
    stride = line_stride(panel_columns(shape.columns));
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
    const std::size_t line_bytes = kLineFloats * sizeof(float);
    float* next = buffer.data() + (round_up(address, line_bytes) - address) / sizeof(float);
    pending_panel = next;
    factor_panel = next += shape.rank * stride;
    tile = next += shape.rank * stride;
  }

  static std::size_t floats(const Shape& shape) {
    const std::size_t stride = line_stride(panel_columns(shape.columns));
    return kLineFloats + (2 * shape.rank + kRightTileRows) * stride;
  }

  std::size_t stride;
  float* pending_panel;
  float* factor_panel;
  float* tile;
};

// A part of a matrix.
struct Rectangle {
  Range rows;
  Range columns;
};

// residual −= left · rightᵀ on a rectangle. A default-constructed pair changes nothing.
void subtract_product(const Shape& shape, FactorPair factors, float* residual,
                      const Rectangle& part, std::span<float> scratch);

// residual −= gradient on a rectangle.
void subtract_gradient(const Shape& shape, const float* gradient, float* residual,
                       const Rectangle& part);

}  // namespace gradwire::kernels::low_rank
