// Whole-tile operations on top of the micro-kernels, compiled once per SIMD target.

#if defined(GRADWIRE_KERNELS_LOW_RANK_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_KERNELS_LOW_RANK_TILE_INL_H_
#undef GRADWIRE_KERNELS_LOW_RANK_TILE_INL_H_
#else
#define GRADWIRE_KERNELS_LOW_RANK_TILE_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "kernels/low_rank.h"
#include "kernels/low_rank_micro-inl.h"
#include "kernels/low_rank_panel.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::low_rank {
namespace HWY_NAMESPACE {

struct TileBounds {
  std::size_t row;
  std::size_t rows;
  std::size_t column;
  std::size_t columns;

  std::size_t width() const { return padded_width(columns); }
};

// Packs rows [column, column + columns) of a right factor into the lines of a panel, padded with
// zeros.
HWY_INLINE void pack_panel(const float* right, std::size_t rank, std::size_t column,
                           std::size_t columns, float* HWY_RESTRICT panel, std::size_t stride) {
  for (std::size_t j = 0; j < columns; ++j) {
    const float* source = right + (column + j) * rank;
    for (std::size_t c = 0; c < rank; ++c) panel[c * stride + j] = source[c];
  }
  for (std::size_t c = 0; c < rank; ++c) {
    std::fill(panel + c * stride + columns, panel + c * stride + padded_width(columns), 0.0F);
  }
}

HWY_INLINE void unpack_panel(const float* HWY_RESTRICT panel, std::size_t stride, std::size_t rank,
                             std::size_t column, std::size_t columns, float* right) {
  for (std::size_t j = 0; j < columns; ++j) {
    float* target = right + (column + j) * rank;
    for (std::size_t c = 0; c < rank; ++c) target[c] = panel[c * stride + j];
  }
}

// The tile's part of a matrix, padded with zeros.
HWY_INLINE void copy_into_tile(const TileBounds& bounds, const float* matrix, std::size_t columns,
                               float* tile, std::size_t stride) {
  for (std::size_t i = 0; i < bounds.rows; ++i) {
    float* line = tile + i * stride;
    std::copy_n(matrix + (bounds.row + i) * columns + bounds.column, bounds.columns, line);
    std::fill(line + bounds.columns, line + bounds.width(), 0.0F);
  }
}

// tile = left · panel, for the rows of the tile.
HWY_INLINE void multiply_into_tile(const TileBounds& bounds, const float* left, std::size_t rank,
                                   const float* panel, float* tile, std::size_t stride,
                                   Prefetcher next) {
  const std::size_t strips = bounds.width() / kStripColumns;
  const std::size_t groups = (bounds.rows + kStripRows - 1) / kStripRows;
  const std::size_t lines = next.lines_per_call(strips * groups);
  for (std::size_t j = 0; j < bounds.width(); j += kStripColumns) {
    for (std::size_t i = 0; i < bounds.rows; i += kStripRows) {
      next.fetch(lines);
      outer_product_rows(std::min(kStripRows, bounds.rows - i), left + (bounds.row + i) * rank,
                         rank, panel + j, stride, tile + i * stride + j);
    }
  }
}

// left (+)= tile · panelᵀ, for the rows of the tile.
HWY_INLINE void multiply_from_left(const TileBounds& bounds, const float* tile, const float* panel,
                                   std::size_t stride, bool add, float* left, std::size_t rank,
                                   Prefetcher next) {
  const std::size_t groups = (bounds.rows + kDotRows - 1) / kDotRows;
  const std::size_t lines = next.lines_per_call(groups * ((rank + kDotRanks - 1) / kDotRanks));
  for (std::size_t c = 0; c < rank; c += kDotRanks) {
    for (std::size_t i = 0; i < bounds.rows; i += kDotRows) {
      next.fetch(lines);
      dot_products_block(std::min(kDotRows, bounds.rows - i), std::min(kDotRanks, rank - c),
                         tile + i * stride, panel + c * stride, stride, bounds.width(), add,
                         left + (bounds.row + i) * rank + c, rank);
    }
  }
}

// sums += tileᵀ · left, for the columns of the tile.
HWY_INLINE void multiply_from_right(const TileBounds& bounds, const float* tile, const float* left,
                                    std::size_t rank, float* sums, std::size_t stride,
                                    Prefetcher next) {
  constexpr std::size_t kStep = kColumnVectors * kLanes;
  const std::size_t strips = (bounds.width() + kStep - 1) / kStep;
  const std::size_t lines = next.lines_per_call(strips * ((rank + kDotRanks - 1) / kDotRanks));
  for (std::size_t j = 0; j < bounds.width(); j += kStep) {
    const std::size_t vectors = std::min(kStep, bounds.width() - j) / kLanes;
    for (std::size_t c = 0; c < rank; c += kDotRanks) {
      next.fetch(lines);
      column_sums_block(vectors, std::min(kDotRanks, rank - c), tile + j, bounds.rows,
                        left + bounds.row * rank + c, rank, sums + c * stride + j, stride);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gradwire::kernels::low_rank
HWY_AFTER_NAMESPACE();

#endif  // GRADWIRE_KERNELS_LOW_RANK_TILE_INL_H_
