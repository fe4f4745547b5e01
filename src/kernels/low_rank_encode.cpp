#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/low_rank.h"
#include "kernels/low_rank_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_rank_encode.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/low_rank_tile-inl.h"

#ifndef GRADWIRE_KERNELS_LOW_RANK_ENCODE_STEP_
#define GRADWIRE_KERNELS_LOW_RANK_ENCODE_STEP_
namespace gradwire::kernels::low_rank {

// What an encode step reads and writes, whichever factor it computes.
struct EncodeStep {
  const Shape& shape;
  const float* gradient;
  float* residual;
  FactorPair pending;
  Scratch scratch;
};

// How far a step came: all rows of the columns before `panel`, and of the panel the rows before
// `row`.
struct Progress {
  bool complete;
  Range panel;
  std::size_t row;
};

}  // namespace gradwire::kernels::low_rank
#endif

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::low_rank {
namespace HWY_NAMESPACE {
namespace {

// The tile that starts at `row`, and what to fetch of a matrix for the tile below it.
TileBounds tile_at(std::size_t row, std::size_t last_row, std::size_t tile_rows, Range panel) {
  return {row, std::min(tile_rows, last_row - row), panel.begin, panel.end - panel.begin};
}

Prefetcher below(const TileBounds& bounds, std::size_t last_row, const float* matrix,
                 std::size_t columns) {
  const std::size_t row = bounds.row + bounds.rows;
  return {matrix + row * columns + bounds.column, columns, std::min(bounds.rows, last_row - row),
          bounds.columns};
}

// Finite values times zero add up to zero; an infinity or NaN leaves a NaN that no later value
// removes.
class FiniteCheck {
 public:
  HWY_INLINE FiniteCheck() : poison_(hn::Zero(Floats())) {}

  HWY_INLINE void add(Vector values) { poison_ = hn::MulAdd(values, hn::Zero(Floats()), poison_); }
  HWY_INLINE bool passed() const { return hn::AllTrue(Floats(), hn::Eq(poison_, poison_)); }

 private:
  Vector poison_;
};

bool all_finite(const float* values, std::size_t count) {
  FiniteCheck check;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) check.add(hn::LoadU(Floats(), values + i));
  for (; i < count; ++i) check.add(hn::Set(Floats(), values[i]));
  return check.passed();
}

// values = gradient + (residual − values)
HWY_INLINE void add_settled(const float* HWY_RESTRICT gradient, const float* HWY_RESTRICT residual,
                            std::size_t count, float* HWY_RESTRICT values, FiniteCheck& check) {
  const Floats d;
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
}

// Leaves A of this tile in the scratch tile and, if all of it is finite, in the residual buffer.
// The buffer is not touched before that is known: from an infinite A the residual cannot be
// recovered.
bool settle_and_add(const EncodeStep& step, const TileBounds& bounds, std::size_t last_row) {
  const std::size_t columns = step.shape.columns;
  const std::size_t stride = step.scratch.stride;
  float* tile = step.scratch.tile;
  const std::size_t pending_rank = step.pending.left == nullptr ? 0 : step.shape.rank;
  multiply_into_tile(bounds, step.pending.left, pending_rank, step.scratch.pending_panel, tile,
                     stride, below(bounds, last_row, step.gradient, columns));
  const std::size_t corner = bounds.row * columns + bounds.column;
  FiniteCheck check;
  for (std::size_t i = 0; i < bounds.rows; ++i) {
    const std::size_t at = corner + i * columns;
    add_settled(step.gradient + at, step.residual + at, bounds.columns, tile + i * stride, check);
  }
  if (!check.passed()) return false;
  for (std::size_t i = 0; i < bounds.rows; ++i) {
    std::copy_n(tile + i * stride, bounds.columns, step.residual + corner + i * columns);
  }
  return true;
}

void pack_pending(const EncodeStep& step, Range panel) {
  if (step.pending.left == nullptr) return;
  pack_panel(step.pending.right, step.shape.rank, panel.begin, panel.end - panel.begin,
             step.scratch.pending_panel, step.scratch.stride);
}

Progress encode_left_target(const EncodeStep& step, const float* right, float* left, Range rows) {
  const auto& [shape, gradient, residual, pending, scratch] = step;
  const std::size_t panel_width = panel_columns(shape.columns);
  for (std::size_t column = 0; column < shape.columns; column += panel_width) {
    const Range panel{column, std::min(column + panel_width, shape.columns)};
    pack_pending(step, panel);
    pack_panel(right, shape.rank, column, panel.end - column, scratch.factor_panel, scratch.stride);
    for (std::size_t row = rows.begin; row < rows.end; row += kLeftTileRows) {
      const TileBounds bounds = tile_at(row, rows.end, kLeftTileRows, panel);
      if (!settle_and_add(step, bounds, rows.end)) return {false, panel, row};
      multiply_from_left(bounds, scratch.tile, scratch.factor_panel, scratch.stride, column > 0,
                         left, shape.rank, below(bounds, rows.end, residual, shape.columns));
    }
  }
  const bool finite =
      all_finite(left + rows.begin * shape.rank, (rows.end - rows.begin) * shape.rank);
  return {finite, {shape.columns, shape.columns}, rows.begin};
}

Progress encode_right_target(const EncodeStep& step, const float* left, float* right,
                             Range columns) {
  const auto& [shape, gradient, residual, pending, scratch] = step;
  const std::size_t panel_width = panel_columns(shape.columns);
  for (std::size_t column = columns.begin; column < columns.end; column += panel_width) {
    const Range panel{column, std::min(column + panel_width, columns.end)};
    pack_pending(step, panel);
    float* sums = scratch.factor_panel;
    std::fill_n(sums, shape.rank * scratch.stride, 0.0F);
    for (std::size_t row = 0; row < shape.rows; row += kRightTileRows) {
      const TileBounds bounds = tile_at(row, shape.rows, kRightTileRows, panel);
      if (!settle_and_add(step, bounds, shape.rows)) return {false, panel, row};
      multiply_from_right(bounds, scratch.tile, left, shape.rank, sums, scratch.stride,
                          below(bounds, shape.rows, residual, shape.columns));
    }
    if (!all_finite(sums, shape.rank * scratch.stride)) return {false, panel, shape.rows};
    unpack_panel(sums, scratch.stride, shape.rank, column, panel.end - column, right);
  }
  return {true, {columns.end, columns.end}, 0};
}

void multiply_transposed_target(const Shape& shape, const float* matrix, const float* left,
                                float* right, Range columns, const Scratch& scratch) {
  const std::size_t panel_width = panel_columns(shape.columns);
  for (std::size_t column = columns.begin; column < columns.end; column += panel_width) {
    const Range panel{column, std::min(column + panel_width, columns.end)};
    float* sums = scratch.factor_panel;
    std::fill_n(sums, shape.rank * scratch.stride, 0.0F);
    for (std::size_t row = 0; row < shape.rows; row += kRightTileRows) {
      const TileBounds bounds = tile_at(row, shape.rows, kRightTileRows, panel);
      copy_into_tile(bounds, matrix, shape.columns, scratch.tile, scratch.stride);
      multiply_from_right(bounds, scratch.tile, left, shape.rank, sums, scratch.stride,
                          below(bounds, shape.rows, matrix, shape.columns));
    }
    unpack_panel(sums, scratch.stride, shape.rank, column, panel.end - column, right);
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
HWY_EXPORT(multiply_transposed_target);

// Leaves E, settled, in a part of the residual buffer that an encode step has left half done.
void roll_back(const EncodeStep& step, const Rectangle& part, const Progress& progress,
               std::span<float> scratch) {
  const auto& [rows, columns] = part;
  const Range before{columns.begin, progress.panel.begin};
  const Range after{progress.panel.end, columns.end};
  const Range done{rows.begin, progress.row};
  const Range not_done{progress.row, rows.end};
  subtract_gradient(step.shape, step.gradient, step.residual, {rows, before});
  subtract_gradient(step.shape, step.gradient, step.residual, {done, progress.panel});
  subtract_product(step.shape, step.pending, step.residual, {not_done, progress.panel}, scratch);
  subtract_product(step.shape, step.pending, step.residual, {rows, after}, scratch);
}

}  // namespace

std::size_t scratch_floats(const Shape& shape) { return Scratch::floats(shape); }

bool encode_left(const Shape& shape, const float* gradient, float* residual, FactorPair pending,
                 const float* right, float* left, Range rows, std::span<float> scratch) {
  const EncodeStep step{shape, gradient, residual, pending, Scratch(shape, scratch)};
  const Progress progress = HWY_DYNAMIC_DISPATCH(encode_left_target)(step, right, left, rows);
  if (!progress.complete) roll_back(step, {rows, {0, shape.columns}}, progress, scratch);
  return progress.complete;
}

bool encode_right(const Shape& shape, const float* gradient, float* residual, FactorPair pending,
                  const float* left, float* right, Range columns, std::span<float> scratch) {
  const EncodeStep step{shape, gradient, residual, pending, Scratch(shape, scratch)};
  const Progress progress = HWY_DYNAMIC_DISPATCH(encode_right_target)(step, left, right, columns);
  if (!progress.complete) roll_back(step, {{0, shape.rows}, columns}, progress, scratch);
  return progress.complete;
}

void multiply_transposed(const Shape& shape, const float* matrix, const float* left, float* right,
                         Range columns, std::span<float> scratch) {
  HWY_DYNAMIC_DISPATCH(multiply_transposed_target)
  (shape, matrix, left, right, columns, Scratch(shape, scratch));
}

}  // namespace gradwire::kernels::low_rank
#endif
