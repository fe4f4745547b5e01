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
#include "kernels/low_rank_prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::low_rank {
namespace HWY_NAMESPACE {

// Packs the panel's rows of a right factor, times `factor`, into lines, padded with zeros.
HWY_INLINE void pack_panel(const float* right, std::size_t rank, float factor, Range columns,
                           Lines panel) {
  const std::size_t count = columns.end - columns.begin;
  for (std::size_t j = 0; j < count; ++j) {
    const float* source = right + (columns.begin + j) * rank;
    for (std::size_t c = 0; c < rank; ++c) *panel.at(c, j) = source[c] * factor;
  }
  for (std::size_t c = 0; c < rank; ++c) {
    std::fill(panel.at(c, count), panel.at(c, padded_width(count)), 0.0F);
  }
}

HWY_INLINE void unpack_panel(Lines panel, std::size_t rank, Range columns, float* right) {
  for (std::size_t j = 0; j < columns.end - columns.begin; ++j) {
    float* target = right + (columns.begin + j) * rank;
    for (std::size_t c = 0; c < rank; ++c) target[c] = *panel.at(c, j);
  }
}

// Copies the tile's part of a matrix and pads it with zeros.
HWY_INLINE void copy_into_tile(const TileBounds& bounds, const float* matrix, std::size_t columns,
                               Lines tile) {
  for (std::size_t i = 0; i < bounds.rows; ++i) {
    const float* source = matrix + (bounds.row + i) * columns + bounds.column;
    std::copy_n(source, bounds.columns, tile.at(i, 0));
    std::fill(tile.at(i, bounds.columns), tile.at(i, bounds.width()), 0.0F);
  }
}

// tile = left · panel, for the rows of the tile. Here `tile` need not be aligned.
HWY_INLINE void multiply_into_tile(const TileBounds& bounds, const float* left, std::size_t rank,
                                   Lines panel, Lines tile, Prefetcher next) {
  const std::size_t strips = bounds.width() / kStripColumns;
  const std::size_t groups = (bounds.rows + kStripRows - 1) / kStripRows;
  const std::size_t lines = next.lines_per_call(strips * groups);
  for (std::size_t j = 0; j < bounds.width(); j += kStripColumns) {
    for (std::size_t i = 0; i < bounds.rows; i += kStripRows) {
      next.fetch(lines);
      outer_product_rows(std::min(kStripRows, bounds.rows - i), left + (bounds.row + i) * rank,
                         rank, panel.from(0, j), tile.from(i, j));
    }
  }
}

// left (+)= tile · panelᵀ, for the rows of the tile.
HWY_INLINE void multiply_from_left(const TileBounds& bounds, Lines tile, Lines panel, bool add,
                                   float* left, std::size_t rank, Prefetcher next) {
  const std::size_t groups = (bounds.rows + kDotRows - 1) / kDotRows;
  const std::size_t lines = next.lines_per_call(groups * ((rank + kDotRanks - 1) / kDotRanks));
  for (std::size_t c = 0; c < rank; c += kDotRanks) {
    for (std::size_t i = 0; i < bounds.rows; i += kDotRows) {
      next.fetch(lines);
      dot_products_block(std::min(kDotRows, bounds.rows - i), std::min(kDotRanks, rank - c),
                         tile.from(i, 0), panel.from(c, 0), bounds.width(), add,
                         left + (bounds.row + i) * rank + c, rank);
    }
  }
}

// sums += tileᵀ · left, for the columns of the tile.
HWY_INLINE void multiply_from_right(const TileBounds& bounds, Lines tile, const float* left,
                                    std::size_t rank, Lines sums, Prefetcher next) {
  constexpr std::size_t kStep = kColumnVectors * kLanes;
  const std::size_t strips = (bounds.width() + kStep - 1) / kStep;
  const std::size_t lines = next.lines_per_call(strips * ((rank + kDotRanks - 1) / kDotRanks));
  for (std::size_t j = 0; j < bounds.width(); j += kStep) {
    const std::size_t vectors = std::min(kStep, bounds.width() - j) / kLanes;
    for (std::size_t c = 0; c < rank; c += kDotRanks) {
      next.fetch(lines);
      column_sums_block(vectors, std::min(kDotRanks, rank - c), tile.from(0, j), bounds.rows,
                        left + bounds.row * rank + c, rank, sums.from(c, j));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gradwire::kernels::low_rank
HWY_AFTER_NAMESPACE();

#endif  // GRADWIRE_KERNELS_LOW_RANK_TILE_INL_H_
