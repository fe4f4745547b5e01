#include "kernels/low_rank_bf16.h"

#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/low_rank_bf16_layout.h"
#include "kernels/low_rank_panel.h"
#include "kernels/low_rank_prefetch.h"

// Attributes, not compiler options, choose the target: code of the headers above that a linker
// shares with other sources must run everywhere.
HWY_PUSH_ATTRIBUTES("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

#include "kernels/low_rank_bf16_micro-inl.h"
#include "kernels/low_rank_bf16_tile-inl.h"

namespace gradwire::kernels::low_rank::bf16 {
namespace {

// left (+)= tile · right, for the rows of the tile.
HWY_INLINE void multiply_from_left(const TileBounds& bounds, Lines tile, Lines right, bool add,
                                   float* left, std::size_t rank, Prefetcher later) {
  for (std::size_t c = 0; c < rank; c += 2 * kLanes) {
    row_sums_block(bounds.rows, tile, right.from(0, c), bounds.width() / 2, add,
                   left + bounds.row * rank + c, rank, c, later);
  }
}

// sums += tileᵀ · left, for the columns of the tile.
HWY_INLINE void multiply_from_right(const TileBounds& bounds, Lines tile, Lines left,
                                    std::size_t rank, float* sums, Prefetcher later) {
  const std::size_t groups = (rank + kSumRanks - 1) / kSumRanks;
  const std::size_t lines = later.lines_per_call(groups * bounds.width() / kStripColumns);
  for (std::size_t j = 0; j < bounds.width(); j += kStripColumns) {
    const Lines part{part_of_strip(sums, rank, j), kStripColumns};
    for (std::size_t c = 0; c < rank; c += kSumRanks) {
      later.fetch(lines);
      column_sums_block(std::min(kSumRanks, rank - c), tile.from(0, j), (bounds.rows + 1) / 2,
                        left.from(0, c), part.from(c, 0));
    }
  }
}

// left = values · right
template <class Source>
Progress multiply_values(const Shape& shape, Source source, const float* right, float* left,
                         Range rows, const PairScratch& scratch) {
  const std::size_t width = panel_width(shape);
  for (std::size_t column = 0; column < shape.columns; column += width) {
    const Range panel{column, std::min(column + width, shape.columns)};
    source.begin_panel(panel);
    pack_pairs(right, shape.rank, panel, padded_width(panel.end - column), scratch.right_pairs);
    const Lines pairs = PairsInRows::lines(scratch.tile, tile_width(shape));
    const TileWalk walk({rows, panel}, kTileRowsAlong, tile_width(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0;) {
      const TileBounds next = walk.next(tile);
      const TileBounds strip = fill_tile<PairsInRows>(source, tile, pairs, next);
      if (strip.rows > 0) return {false, panel, tile, strip};
      multiply_from_left(tile, pairs, scratch.right_pairs.from((tile.column - column) / 2, 0),
                         tile.column > 0, left, shape.rank, source.fetch_while_multiplying(next));
      tile = next;
    }
  }
  const TileBounds end{rows.end, 0, shape.columns, 0};
  return {true, {shape.columns, shape.columns}, end, end};
}

// right = valuesᵀ · left. Sums that are not finite stop it only if the values are checked too.
template <class Source>
Progress multiply_values_transposed(const Shape& shape, Source source, const float* left,
                                    float* right, Range columns, const PairScratch& scratch) {
  const std::size_t width = panel_width(shape);
  for (std::size_t column = columns.begin; column < columns.end; column += width) {
    const Range panel{column, std::min(column + width, columns.end)};
    source.begin_panel(panel);
    const std::size_t sums = shape.rank * padded_width(panel.end - column);
    std::fill_n(scratch.sums, sums, 0.0F);
    const Lines pairs = PairsInColumns::lines(scratch.tile, tile_width(shape));
    const TileWalk walk({{0, shape.rows}, panel}, kTileRowsAcross, tile_width(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0;) {
      const TileBounds next = walk.next(tile);
      const TileBounds strip = fill_tile<PairsInColumns>(source, tile, pairs, next);
      if (strip.rows > 0) return {false, panel, tile, strip};
      pack_pairs(left, shape.rank, {tile.row, tile.row + tile.rows}, tile.rows, scratch.left_pairs);
      multiply_from_right(tile, pairs, scratch.left_pairs, shape.rank,
                          part_of_strip(scratch.sums, shape.rank, tile.column - column),
                          source.fetch_while_multiplying(next));
      tile = next;
    }
    if (Source::kChecked && !all_finite(scratch.sums, sums)) {
      const TileBounds end{shape.rows, 0, column, 0};
      return {false, panel, end, end};
    }
    unpack_strips(scratch.sums, shape.rank, panel, right);
  }
  const TileBounds end{shape.rows, 0, columns.end, 0};
  return {true, {columns.end, columns.end}, end, end};
}

}  // namespace

Progress encode_left(const EncodeStep& step, const float* right, float* left, Range rows,
                     std::span<float> scratch) {
  const Shape& shape = step.shape;
  const PairScratch parts(shape, scratch);
  Progress progress =
      multiply_values(shape, SettledValues{step, parts.pending}, right, left, rows, parts);
  const std::size_t count = (rows.end - rows.begin) * shape.rank;
  progress.complete = progress.complete && all_finite(left + rows.begin * shape.rank, count);
  return progress;
}

Progress encode_right(const EncodeStep& step, const float* left, float* right, Range columns,
                      std::span<float> scratch) {
  const PairScratch parts(step.shape, scratch);
  return multiply_values_transposed(step.shape, SettledValues{step, parts.pending}, left, right,
                                    columns, parts);
}

void multiply(const Shape& shape, const float* matrix, const float* right, float* left, Range rows,
              std::span<float> scratch) {
  multiply_values(shape, MatrixValues{matrix, shape.columns}, right, left, rows,
                  PairScratch(shape, scratch));
}

void multiply_transposed(const Shape& shape, const float* matrix, const float* left, float* right,
                         Range columns, std::span<float> scratch) {
  multiply_values_transposed(shape, MatrixValues{matrix, shape.columns}, left, right, columns,
                             PairScratch(shape, scratch));
}

}  // namespace gradwire::kernels::low_rank::bf16

HWY_POP_ATTRIBUTES

namespace gradwire::kernels::low_rank::bf16 {

// Every machine calls these two.
std::size_t scratch_floats(const Shape& shape) { return PairScratch::floats(shape); }

bool supported() { return __builtin_cpu_supports("avx512bf16"); }

}  // namespace gradwire::kernels::low_rank::bf16
