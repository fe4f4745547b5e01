#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/low_rank.h"
#include "kernels/low_rank_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_rank_decode.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/low_rank_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::low_rank {
namespace HWY_NAMESPACE {
namespace {

// target −= values
HWY_INLINE void subtract(const float* HWY_RESTRICT values, std::size_t count,
                         float* HWY_RESTRICT target) {
  const Floats d;
  std::size_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    hn::StoreU(hn::Sub(hn::LoadU(d, target + j), hn::LoadU(d, values + j)), d, target + j);
  }
  for (; j < count; ++j) target[j] -= values[j];
}

// Calls visit(tile, panel) for every tile of a part of the matrix. The panel holds the tile's part
// of the right factor, times `factor`, packed.
template <class Visit>
HWY_INLINE void for_each_tile(const Shape& shape, const float* right, float factor,
                              const Rectangle& part, const Scratch& scratch, const Visit& visit) {
  const std::size_t width = panel_columns(shape);
  for (std::size_t column = part.columns.begin; column < part.columns.end; column += width) {
    const Range panel{column, std::min(column + width, part.columns.end)};
    pack_panel(right, shape.rank, factor, panel, scratch.factor_panel);
    const TileWalk walk({part.rows, panel}, kTileRows, tile_columns(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0; tile = walk.next(tile)) {
      visit(tile, scratch.factor_panel.from(0, tile.column - column));
    }
  }
}

// result = left · panel. If the tile has whole strips only, the result is stored from registers, so
// that waiting for memory overlaps with the arithmetic. (Stores that bypass the caches were
// slower.)
struct StoreProduct {
  const Shape& shape;
  const float* left;
  float* result;
  Lines scratch;

  HWY_INLINE void operator()(const TileBounds& tile, Lines panel) const {
    const Lines target{result + tile.row * shape.columns + tile.column, shape.columns};
    const bool whole = tile.columns == tile.width();
    multiply_into_tile(tile, left, shape.rank, panel, whole ? target : scratch, Prefetcher());
    if (whole) return;
    for (std::size_t i = 0; i < tile.rows; ++i) {
      std::copy_n(scratch.at(i, 0), tile.columns, target.at(i, 0));
    }
  }
};

// residual −= left · panel.
struct SubtractProduct {
  const Shape& shape;
  const float* left;
  float* residual;
  Lines scratch;

  HWY_INLINE void operator()(const TileBounds& tile, Lines panel) const {
    multiply_into_tile(tile, left, shape.rank, panel, scratch, Prefetcher());
    for (std::size_t i = 0; i < tile.rows; ++i) {
      const std::size_t at = (tile.row + i) * shape.columns + tile.column;
      subtract(scratch.at(i, 0), tile.columns, residual + at);
    }
  }
};

void decode_target(const Shape& shape, FactorPair factors, float factor, float* result, Range rows,
                   const Scratch& scratch) {
  for_each_tile(shape, factors.right, factor, {rows, {0, shape.columns}}, scratch,
                StoreProduct{shape, factors.left, result, scratch.tile});
}

void subtract_product_target(const Shape& shape, FactorPair factors, float* residual,
                             const Rectangle& part, const Scratch& scratch) {
  for_each_tile(shape, factors.right, 1.0F, part, scratch,
                SubtractProduct{shape, factors.left, residual, scratch.tile});
}

void subtract_gradient_target(const Shape& shape, const float* gradient, float* residual,
                              const Rectangle& part) {
  const std::size_t count = part.columns.end - part.columns.begin;
  for (std::size_t row = part.rows.begin; row < part.rows.end; ++row) {
    const std::size_t at = row * shape.columns + part.columns.begin;
    subtract(gradient + at, count, residual + at);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire::kernels::low_rank
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels::low_rank {
namespace {

HWY_EXPORT(decode_target);
HWY_EXPORT(subtract_product_target);
HWY_EXPORT(subtract_gradient_target);

}  // namespace

void decode(const Shape& shape, FactorPair factors, float factor, float* result, Range rows,
            std::span<float> scratch) {
  HWY_DYNAMIC_DISPATCH(decode_target)
  (shape, factors, factor, result, rows, Scratch(shape, scratch));
}

void subtract_product(const Shape& shape, FactorPair factors, float* residual,
                      const Rectangle& part, std::span<float> scratch) {
  if (factors.left == nullptr) return;
  HWY_DYNAMIC_DISPATCH(subtract_product_target)
  (shape, factors, residual, part, Scratch(shape, scratch));
}

void subtract_gradient(const Shape& shape, const float* gradient, float* residual,
                       const Rectangle& part) {
  HWY_DYNAMIC_DISPATCH(subtract_gradient_target)(shape, gradient, residual, part);
}

void settle(const Shape& shape, FactorPair pending, float* residual, Range rows,
            std::span<float> scratch) {
  subtract_product(shape, pending, residual, {rows, {0, shape.columns}}, scratch);
}

void roll_back(const Shape& shape, const float* gradient, float* residual, Range rows,
               Range columns) {
  subtract_gradient(shape, gradient, residual, {rows, columns});
}

}  // namespace gradwire::kernels::low_rank
#endif
