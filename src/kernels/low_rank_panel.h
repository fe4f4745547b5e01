#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/low_rank.h"

// How the low-rank kernels cut a matrix into pieces that stay in cache.
//
// A *panel* is a run of columns. Its part of a right factor is packed transposed, with one line per
// column of the factor. So every inner loop runs along the contiguous direction of the gradient,
// and the vectors do not depend on the rank. A *tile* is a few rows and a run of columns of a
// panel. It is computed, stored and multiplied while it is in cache. Tiles are visited along the
// rows first, so that a page of the gradient is read once per panel.
namespace gradwire::kernels::low_rank {

// One cache line. Pointers into scratch are aligned to it.
inline constexpr std::size_t kLineFloats = 16;
// Tile widths are padded to whole pairs of vectors of the widest target (AVX-512).
inline constexpr std::size_t kWidthPadding = 32;
// A packed panel has at most 384 KB. Wide panels read the gradient in long runs, and a tile uses
// each packed line often enough to pay for fetching it from the third-level cache.
inline constexpr std::size_t kPanelFloats = 98304;
// A row of a tile is one run of 3 KB of the gradient. Shorter runs cost more than a tile that does
// not fit into the first-level cache.
inline constexpr std::size_t kTileColumns = 768;
// But a tile that is a piece of longer rows and is read again for many ranks must fit into the
// first-level cache.
inline constexpr std::size_t kNarrowTileColumns = 256;
inline constexpr std::size_t kManyRanks = 16;
// Enough rows to use packed lines and accumulators often. Not many more, because every row of a
// wide matrix is on a page of its own.
inline constexpr std::size_t kTileRows = 24;

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

// The width of pieces of at most `most` columns. All are equal, except the last.
inline constexpr std::size_t equal_pieces(std::size_t columns, std::size_t most) {
  const std::size_t pieces = std::max<std::size_t>((columns + most - 1) / most, 1);
  return std::max(round_up((columns + pieces - 1) / pieces, kWidthPadding), kWidthPadding);
}

// The order of summation follows the widths of panels and tiles, so these depend on the shape only.
inline std::size_t panel_columns(const Shape& shape) {
  const std::size_t fitting = kPanelFloats / std::max<std::size_t>(shape.rank, 1);
  const std::size_t most = std::max(fitting / kWidthPadding * kWidthPadding, kWidthPadding);
  return equal_pieces(shape.columns, most);
}

inline std::size_t tile_columns(const Shape& shape) {
  const bool narrow = shape.rank >= kManyRanks && shape.columns > kTileColumns;
  return equal_pieces(panel_columns(shape), narrow ? kNarrowTileColumns : kTileColumns);
}

// A packed panel or a tile: lines of floats, `stride` apart.
struct Lines {
  float* begin;
  std::size_t stride;

  float* at(std::size_t line, std::size_t column) const { return begin + line * stride + column; }
  Lines from(std::size_t line, std::size_t column) const { return {at(line, column), stride}; }
};

// The first aligned address of a scratch buffer.
inline float* aligned(std::span<float> buffer) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  const std::size_t line_bytes = kLineFloats * sizeof(float);
  return buffer.data() + (round_up(address, line_bytes) - address) / sizeof(float);
}

// The parts of the caller's scratch buffer.
struct Scratch {
  Scratch(const Shape& shape, std::span<float> buffer) {
    pending_panel = {aligned(buffer), line_stride(panel_columns(shape))};
    factor_panel = pending_panel.from(shape.rank, 0);
    tile = {factor_panel.at(shape.rank, 0), line_stride(tile_columns(shape))};
  }

  static std::size_t floats(const Shape& shape) {
    return kLineFloats + 2 * shape.rank * line_stride(panel_columns(shape)) +
           kTileRows * line_stride(tile_columns(shape));
  }

  Lines pending_panel;
  Lines factor_panel;
  Lines tile;
};

// A part of a matrix.
struct Rectangle {
  Range rows;
  Range columns;
};

struct TileBounds {
  std::size_t row;
  std::size_t rows;
  std::size_t column;
  std::size_t columns;

  std::size_t width() const { return padded_width(columns); }
};

// Visits the tiles of a part of a panel, along the rows first.
class TileWalk {
 public:
  TileWalk(const Rectangle& part, std::size_t tile_rows, std::size_t tile_columns)
      : part_(part), tile_rows_(tile_rows), tile_columns_(tile_columns) {}

  TileBounds first() const { return at(part_.rows.begin, part_.columns.begin); }

  // After the last tile comes one without rows.
  TileBounds next(const TileBounds& tile) const {
    const std::size_t column = tile.column + tile.columns;
    if (column < part_.columns.end) return at(tile.row, column);
    return at(tile.row + tile.rows, part_.columns.begin);
  }

 private:
  TileBounds at(std::size_t row, std::size_t column) const {
    return {row, std::min(tile_rows_, part_.rows.end - row), column,
            std::min(tile_columns_, part_.columns.end - column)};
  }

  Rectangle part_;
  std::size_t tile_rows_;
  std::size_t tile_columns_;
};

// residual −= left · rightᵀ on a rectangle. A default-constructed pair changes nothing.
void subtract_product(const Shape& shape, FactorPair factors, float* residual,
                      const Rectangle& part, std::span<float> scratch);

// residual −= gradient on a rectangle.
void subtract_gradient(const Shape& shape, const float* gradient, float* residual,
                       const Rectangle& part);

}  // namespace gradwire::kernels::low_rank
