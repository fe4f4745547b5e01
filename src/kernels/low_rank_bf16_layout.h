#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/low_rank_panel.h"

// How low_rank_bf16.cpp cuts a matrix into pieces.
//
// A *pair* is two bf16 numbers in the place of a float. A *strip* is a group of rows of two
// vectors: it is computed in registers, and its numbers become pairs there. Panels and tiles are
// those of low_rank_panel.h, but the panel's part of a right factor is packed strip by strip.
//
// Nothing here needs the instructions of the target: every machine asks for the size of scratch.
namespace gradwire::kernels::low_rank::bf16 {

inline constexpr std::size_t kLanes = 16;
inline constexpr std::size_t kStripColumns = 2 * kLanes;
inline constexpr std::size_t kStripRows = 12;
static_assert(kWidthPadding % kStripColumns == 0 && kStripRows % 2 == 0);
// A tile is a few long runs of the gradient. One that is multiplied along its rows has one group of
// rows, and stays in the first-level cache. One that is multiplied along its columns has more,
// because the sums are read and written once per tile.
inline constexpr std::size_t kTileRowsAlong = kStripRows;
inline constexpr std::size_t kTileRowsAcross = 4 * kStripRows;
inline constexpr std::size_t kPairTileColumns = 768;

inline std::size_t padded_rank(const Shape& shape) { return round_up(shape.rank, kLanes); }

inline std::size_t panel_width(const Shape& shape) {
  return panel_columns({shape.rows, shape.columns, padded_rank(shape)});
}

inline std::size_t tile_width(const Shape& shape) {
  return equal_pieces(panel_width(shape), kPairTileColumns);
}

struct PairScratch {
  PairScratch(const Shape& shape, std::span<float> buffer)
      : pending(aligned(buffer)),
        sums(pending + shape.rank * panel_width(shape)),
        right_pairs{sums, padded_rank(shape)},
        left_pairs{sums + panel_floats(shape), padded_rank(shape)},
        tile(left_pairs.at(kTileRowsAcross / 2, 0)) {}

  // Room for either the sums of a right factor or the pairs of one.
  static std::size_t panel_floats(const Shape& shape) {
    return panel_width(shape) * std::max(shape.rank, padded_rank(shape) / 2);
  }

  static std::size_t floats(const Shape& shape) {
    return kLineFloats + shape.rank * panel_width(shape) + panel_floats(shape) +
           kTileRowsAcross / 2 * (padded_rank(shape) + line_stride(tile_width(shape)));
  }

  float* pending;
  float* sums;
  Lines right_pairs;
  Lines left_pairs;
  float* tile;
};

}  // namespace gradwire::kernels::low_rank::bf16
