#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// Computes left · rightᵀ on a part of the matrix, tile by tile, and hands each row of each tile to
// store(offset in the matrix, values, count).
template <class Store>
void for_each_product_row(const Shape& shape, FactorPair factors, const Rectangle& part,
                          const Scratch& scratch, const Store& store) {
  const std::size_t width = panel_columns(shape);
  for (std::size_t column = part.columns.begin; column < part.columns.end; column += width) {
    const Range panel{column, std::min(column + width, part.columns.end)};
    pack_panel(factors.right, shape.rank, panel, scratch.factor_panel);
    const TileWalk walk({part.rows, panel}, kLeftTileRows, tile_columns(shape));
    for (TileBounds tile = walk.first(); tile.rows > 0; tile = walk.next(tile)) {
      multiply_into_tile(tile, factors.left, shape.rank,
                         scratch.factor_panel.from(0, tile.column - column), scratch.tile,
                         Prefetcher());
      for (std::size_t i = 0; i < tile.rows; ++i) {
        store((tile.row + i) * shape.columns + tile.column, scratch.tile.at(i, 0), tile.columns);
      }
    }
  }
}

HWY_INLINE std::size_t floats_to_alignment(const float* pointer) {
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(pointer) / sizeof(float) % kLanes;
  return (kLanes - misaligned) % kLanes;
}

// Past the caches: the result is not read again before the next gradient-sized pass, and a plain
// store would read it first.
struct StoreScaled {
  float* result;
  float factor;

  HWY_INLINE void operator()(std::size_t offset, const float* values, std::size_t count) const {
    const Floats d;
    const Vector scale = hn::Set(d, factor);
    float* target = result + offset;
    const std::size_t head = std::min(count, floats_to_alignment(target));
    std::size_t j = 0;
    for (; j < head; ++j) target[j] = values[j] * factor;
    for (; j + kLanes <= count; j += kLanes) {
      hn::Stream(hn::Mul(hn::LoadU(d, values + j), scale), d, target + j);
    }
    for (; j < count; ++j) target[j] = values[j] * factor;
  }
};

struct Subtract {
  float* residual;

  HWY_INLINE void operator()(std::size_t offset, const float* values, std::size_t count) const {
    const Floats d;
    float* target = residual + offset;
    std::size_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      hn::StoreU(hn::Sub(hn::LoadU(d, target + j), hn::Load(d, values + j)), d, target + j);
    }
    for (; j < count; ++j) target[j] -= values[j];
  }
};

struct StoreAndSubtract {
  StoreScaled store;
  Subtract subtract;

  HWY_INLINE void operator()(std::size_t offset, const float* values, std::size_t count) const {
    store(offset, values, count);
    subtract(offset, values, count);
  }
};

void decode_target(const Shape& shape, FactorPair factors, float factor, float* result, Range rows,
                   const Scratch& scratch) {
  for_each_product_row(shape, factors, {rows, {0, shape.columns}}, scratch,
                       StoreScaled{result, factor});
  hwy::FlushStream();
}

void decode_and_settle_target(const Shape& shape, FactorPair factors, float* residual,
                              float* result, Range rows, const Scratch& scratch) {
  for_each_product_row(shape, factors, {rows, {0, shape.columns}}, scratch,
                       StoreAndSubtract{{result, 1.0F}, {residual}});
  hwy::FlushStream();
}

void subtract_product_target(const Shape& shape, FactorPair factors, float* residual,
                             const Rectangle& part, const Scratch& scratch) {
  for_each_product_row(shape, factors, part, scratch, Subtract{residual});
}

void subtract_gradient_target(const Shape& shape, const float* gradient, float* residual,
                              const Rectangle& part) {
  const Floats d;
  const std::size_t count = part.columns.end - part.columns.begin;
  for (std::size_t row = part.rows.begin; row < part.rows.end; ++row) {
    const std::size_t offset = row * shape.columns + part.columns.begin;
    const float* source = gradient + offset;
    float* target = residual + offset;
    std::size_t j = 0;
    for (; j + kLanes <= count; j += kLanes) {
      hn::StoreU(hn::Sub(hn::LoadU(d, target + j), hn::LoadU(d, source + j)), d, target + j);
    }
    for (; j < count; ++j) target[j] -= source[j];
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
HWY_EXPORT(decode_and_settle_target);
HWY_EXPORT(subtract_product_target);
HWY_EXPORT(subtract_gradient_target);

}  // namespace

void decode(const Shape& shape, FactorPair factors, float factor, float* result, Range rows,
            std::span<float> scratch) {
  HWY_DYNAMIC_DISPATCH(decode_target)
  (shape, factors, factor, result, rows, Scratch(shape, scratch));
}

void decode_and_settle(const Shape& shape, FactorPair factors, float* residual, float* result,
                       Range rows, std::span<float> scratch) {
  HWY_DYNAMIC_DISPATCH(decode_and_settle_target)
  (shape, factors, residual, result, rows, Scratch(shape, scratch));
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

void undo(const Shape& shape, const float* gradient, float* residual, Range rows) {
  subtract_gradient(shape, gradient, residual, {rows, {0, shape.columns}});
}

}  // namespace gradwire::kernels::low_rank
#endif
