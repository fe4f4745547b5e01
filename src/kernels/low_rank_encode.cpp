#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "kernels/low_rank.h"
#include "kernels/low_rank_bf16.h"
#include "kernels/low_rank_encode_step.h"
#include "kernels/low_rank_panel.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_rank_encode.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/low_rank_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::low_rank {
namespace HWY_NAMESPACE {
namespace {

// Notes whether all values were finite. It compares bits as integers, which has less latency.
class FiniteCheck {
 public:
  HWY_INLINE FiniteCheck() : largest_(hn::Zero(Bits())) {}

  HWY_INLINE void add(Vector values) {
    largest_ = hn::Max(largest_, hn::BitCast(Bits(), hn::Abs(values)));
  }
  HWY_INLINE bool passed() const {
    const Vector infinity = hn::Set(Floats(), std::numeric_limits<float>::infinity());
    return hn::AllTrue(Bits(), hn::Lt(largest_, hn::BitCast(Bits(), infinity)));
  }

 private:
  using Bits = hn::RebindToSigned<Floats>;
  hn::Vec<Bits> largest_;
};

bool all_finite(const float* values, std::size_t count) {
  FiniteCheck check;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) check.add(hn::LoadU(Floats(), values + i));
  for (; i < count; ++i) check.add(hn::Set(Floats(), values[i]));
  return check.passed();
}

// values = gradient + (residual − values). Returns whether all are finite.
HWY_INLINE bool add_settled(const float* HWY_RESTRICT gradient, const float* HWY_RESTRICT residual,
                            std::size_t count, float* HWY_RESTRICT values) {
  const Floats d;
  FiniteCheck check;
  std::size_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    const Vector settled = hn::Sub(hn::LoadU(d, residual + j), hn::Load(d, values + j));
    const Vector value = hn::Add(hn::LoadU(d, gradient + j), settled);
    hn::Store(value, d, values + j);
    check.add(value);
  }
  for (; j < count; ++j) {
    values[j] = gradient[j] + (residual[j] - values[j]);
    check.add(hn::Set(d, values[j]));
  }
  return check.passed();
}

// Writes A of this tile into the scratch tile and into the residual buffer, row by row, up to the
// first row that is not finite. Returns the number of rows done. A row of the buffer is written
// only after this check, because the residual cannot be recovered from an infinite A.
std::size_t settle_and_add(const EncodeStep& step, const Scratch& scratch, Range panel,
                           const TileBounds& bounds, const TileBounds& next) {
  const std::size_t columns = step.shape.columns;
  const Lines tile = scratch.tile;
  const std::size_t pending_rank = step.pending.left == nullptr ? 0 : step.shape.rank;
  multiply_into_tile(bounds, step.pending.left, pending_rank,
                     scratch.pending_panel.from(0, bounds.column - panel.begin), tile,
                     Prefetcher(step.gradient, columns, next));
  for (std::size_t i = 0; i < bounds.rows; ++i) {
    const std::size_t at = (bounds.row + i) * columns + bounds.column;
    float* values = tile.at(i, 0);
    if (!add_settled(step.gradient + at, step.residual + at, bounds.columns, values)) return i;
    std::copy_n(values, bounds.columns, step.residual + at);
  }
  return bounds.rows;
}

void pack_pending(const EncodeStep& step, const Scratch& scratch, Range panel) {
  if (step.pending.left == nullptr) return;
  pack_panel(step.pending.right, step.shape.rank, 1.0F, panel, scratch.pending_panel);
}

Progress stopped(Range panel, const TileBounds& tile, std::size_t done) {
  return {false, panel, tile, {tile.row + done, tile.rows - done, tile.column, tile.columns}};
}

Progress encode_left_target(const EncodeStep& step, const float* right, float* left, Range rows,
                            const Scratch& scratch) {
  const auto& [shape, gradient, residual, pending] = step;
  const std::size_t width = panel_columns(shape);
  for (std::size_t column = 0; column < shape.columns; column += width) {
    const Range panel{column, std::min(column + width, shape.columns)};
    pack_pending(step, scratch, panel);
    pack_panel(right, shape.rank, 1.0F, panel, scratch.factor_panel);
    const TileWalk walk({rows, panel}, kTileRows, tile_columns(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0;) {
      const TileBounds next = walk.next(tile);
      const std::size_t done = settle_and_add(step, scratch, panel, tile, next);
      if (done < tile.rows) return stopped(panel, tile, done);
      multiply_from_left(tile, scratch.tile, scratch.factor_panel.from(0, tile.column - column),
                         tile.column > 0, left, shape.rank,
                         Prefetcher(residual, shape.columns, next));
      tile = next;
    }
  }
  const bool finite =
      all_finite(left + rows.begin * shape.rank, (rows.end - rows.begin) * shape.rank);
  const TileBounds end{rows.end, 0, shape.columns, 0};
  return {finite, {shape.columns, shape.columns}, end, end};
}

Progress encode_right_target(const EncodeStep& step, const float* left, float* right, Range columns,
                             const Scratch& scratch) {
  const auto& [shape, gradient, residual, pending] = step;
  const std::size_t width = panel_columns(shape);
  for (std::size_t column = columns.begin; column < columns.end; column += width) {
    const Range panel{column, std::min(column + width, columns.end)};
    pack_pending(step, scratch, panel);
    const Lines sums = scratch.factor_panel;
    std::fill_n(sums.begin, shape.rank * sums.stride, 0.0F);
    const TileWalk walk({{0, shape.rows}, panel}, kTileRows, tile_columns(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0;) {
      const TileBounds next = walk.next(tile);
      const std::size_t done = settle_and_add(step, scratch, panel, tile, next);
      if (done < tile.rows) return stopped(panel, tile, done);
      multiply_from_right(tile, scratch.tile, left, shape.rank, sums.from(0, tile.column - column),
                          Prefetcher(residual, shape.columns, next));
      tile = next;
    }
    if (!all_finite(sums.begin, shape.rank * sums.stride)) {
      return stopped(panel, {shape.rows, 0, panel.begin, 0}, 0);
    }
    unpack_panel(sums, shape.rank, panel, right);
  }
  const TileBounds end{shape.rows, 0, columns.end, 0};
  return {true, {columns.end, columns.end}, end, end};
}

void multiply_target(const Shape& shape, const float* matrix, const float* right, float* left,
                     Range rows, const Scratch& scratch) {
  const std::size_t width = panel_columns(shape);
  for (std::size_t column = 0; column < shape.columns; column += width) {
    const Range panel{column, std::min(column + width, shape.columns)};
    pack_panel(right, shape.rank, 1.0F, panel, scratch.factor_panel);
    const TileWalk walk({rows, panel}, kTileRows, tile_columns(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0;) {
      const TileBounds next = walk.next(tile);
      copy_into_tile(tile, matrix, shape.columns, scratch.tile);
      multiply_from_left(tile, scratch.tile, scratch.factor_panel.from(0, tile.column - column),
                         tile.column > 0, left, shape.rank,
                         Prefetcher(matrix, shape.columns, next));
      tile = next;
    }
  }
}

void multiply_transposed_target(const Shape& shape, const float* matrix, const float* left,
                                float* right, Range columns, const Scratch& scratch) {
  const std::size_t width = panel_columns(shape);
  for (std::size_t column = columns.begin; column < columns.end; column += width) {
    const Range panel{column, std::min(column + width, columns.end)};
    const Lines sums = scratch.factor_panel;
    std::fill_n(sums.begin, shape.rank * sums.stride, 0.0F);
    const TileWalk walk({{0, shape.rows}, panel}, kTileRows, tile_columns(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0;) {
      const TileBounds next = walk.next(tile);
      copy_into_tile(tile, matrix, shape.columns, scratch.tile);
      multiply_from_right(tile, scratch.tile, left, shape.rank, sums.from(0, tile.column - column),
                          Prefetcher(matrix, shape.columns, next));
      tile = next;
    }
    unpack_panel(sums, shape.rank, panel, right);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire::kernels::low_rank
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels::low_rank {
namespace {

HWY_EXPORT(encode_left_target);
HWY_EXPORT(encode_right_target);
HWY_EXPORT(multiply_target);
HWY_EXPORT(multiply_transposed_target);

// Restores the settled E in a part of the residual buffer that an encode step has left half done.
void roll_back(const EncodeStep& step, const Rectangle& part, const Progress& progress,
               std::span<float> scratch) {
  const auto& [rows, columns] = part;
  const auto& [complete, panel, tile, strip] = progress;
  const Range tile_rows{tile.row, tile.row + tile.rows};
  const Range tile_columns{tile.column, tile.column + tile.columns};
  const Range strip_rows{strip.row, strip.row + strip.rows};
  for (const Rectangle& done :
       {Rectangle{rows, {columns.begin, panel.begin}}, Rectangle{{rows.begin, tile.row}, panel},
        Rectangle{tile_rows, {panel.begin, tile.column}},
        Rectangle{{tile.row, strip.row}, tile_columns},
        Rectangle{strip_rows, {tile.column, strip.column}}}) {
    subtract_gradient(step.shape, step.gradient, step.residual, done);
  }
  for (const Rectangle& untouched :
       {Rectangle{strip_rows, {strip.column, tile_columns.end}},
        Rectangle{{strip_rows.end, tile_rows.end}, tile_columns},
        Rectangle{tile_rows, {tile_columns.end, panel.end}},
        Rectangle{{tile_rows.end, rows.end}, panel}, Rectangle{rows, {panel.end, columns.end}}}) {
    subtract_product(step.shape, step.pending, step.residual, untouched, scratch);
  }
}

}  // namespace

// Enough for every target, because another one may be pinned between this call and the next.
std::size_t scratch_floats(const Shape& shape) {
  return std::max(Scratch::floats(shape), bf16::scratch_floats(shape));
}

bool encode_left(const Shape& shape, const float* gradient, float* residual, FactorPair pending,
                 const float* right, float* left, Range rows, std::span<float> scratch) {
  const EncodeStep step{shape, gradient, residual, pending};
  const Progress progress = runs_on_bf16() ? bf16::encode_left(step, right, left, rows, scratch)
                                           : HWY_DYNAMIC_DISPATCH(encode_left_target)(
                                                 step, right, left, rows, Scratch(shape, scratch));
  if (!progress.complete) roll_back(step, {rows, {0, shape.columns}}, progress, scratch);
  return progress.complete;
}

bool encode_right(const Shape& shape, const float* gradient, float* residual, FactorPair pending,
                  const float* left, float* right, Range columns, std::span<float> scratch) {
  const EncodeStep step{shape, gradient, residual, pending};
  const Progress progress = runs_on_bf16()
                                ? bf16::encode_right(step, left, right, columns, scratch)
                                : HWY_DYNAMIC_DISPATCH(encode_right_target)(
                                      step, left, right, columns, Scratch(shape, scratch));
  if (!progress.complete) roll_back(step, {{0, shape.rows}, columns}, progress, scratch);
  return progress.complete;
}

void multiply(const Shape& shape, const float* matrix, const float* right, float* left, Range rows,
              std::span<float> scratch) {
  if (runs_on_bf16()) return bf16::multiply(shape, matrix, right, left, rows, scratch);
  HWY_DYNAMIC_DISPATCH(multiply_target)
  (shape, matrix, right, left, rows, Scratch(shape, scratch));
}

void multiply_transposed(const Shape& shape, const float* matrix, const float* left, float* right,
                         Range columns, std::span<float> scratch) {
  if (runs_on_bf16()) {
    return bf16::multiply_transposed(shape, matrix, left, right, columns, scratch);
  }
  HWY_DYNAMIC_DISPATCH(multiply_transposed_target)
  (shape, matrix, left, right, columns, Scratch(shape, scratch));
}

}  // namespace gradwire::kernels::low_rank
#endif
