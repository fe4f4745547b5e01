// The three register-blocked products of the low-rank kernels, compiled once per SIMD target.

#if defined(GRADWIRE_KERNELS_LOW_RANK_MICRO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_KERNELS_LOW_RANK_MICRO_INL_H_
#undef GRADWIRE_KERNELS_LOW_RANK_MICRO_INL_H_
#else
#define GRADWIRE_KERNELS_LOW_RANK_MICRO_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "kernels/low_rank_panel.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::low_rank {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kStripColumns = 2 * kLanes;
inline constexpr std::size_t kStripRows = 6;
inline constexpr std::size_t kDotRows = 3;
inline constexpr std::size_t kDotRanks = 4;
inline constexpr std::size_t kColumnVectors = 3;
static_assert(kWidthPadding % kStripColumns == 0);

// kRows x 2 vectors of tile = left · panel.
template <std::size_t kRows>
HWY_INLINE void outer_product(const float* HWY_RESTRICT left, std::size_t rank, Lines panel,
                              Lines tile) {
  const Floats d;
  Vector sum[kRows][2];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kRows; ++i) sum[i][0] = sum[i][1] = hn::Zero(d);
  for (std::size_t c = 0; c < rank; ++c) {
    const Vector right0 = hn::Load(d, panel.at(c, 0));
    const Vector right1 = hn::Load(d, panel.at(c, kLanes));
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      const Vector weight = hn::Set(d, left[i * rank + c]);
      sum[i][0] = hn::MulAdd(weight, right0, sum[i][0]);
      sum[i][1] = hn::MulAdd(weight, right1, sum[i][1]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kRows; ++i) {
    hn::StoreU(sum[i][0], d, tile.at(i, 0));
    hn::StoreU(sum[i][1], d, tile.at(i, kLanes));
  }
}

template <std::size_t kRows = kStripRows>
HWY_INLINE void outer_product_rows(std::size_t rows, const float* left, std::size_t rank,
                                   Lines panel, Lines tile) {
  if (rows == kRows) {
    outer_product<kRows>(left, rank, panel, tile);
  } else if constexpr (kRows > 1) {
    outer_product_rows<kRows - 1>(rows, left, rank, panel, tile);
  }
}

// sums[k] = the sum of the lanes of v[k].
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void sums_of_lanes(const Vector (&v)[4], float* sums) {
  for (std::size_t k = 0; k < 4; ++k) sums[k] = hn::GetLane(v[k]);
}
#else
template <class D>
HWY_INLINE void store_sum_of_blocks(D d, hn::Vec<D> blocks, float* sums) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(blocks, d, sums);
  } else {
    const hn::Half<D> half;
    const auto lower = hn::LowerHalf(half, blocks);
    store_sum_of_blocks(half, hn::Add(lower, hn::UpperHalf(half, blocks)), sums);
  }
}

HWY_INLINE void sums_of_lanes(const Vector (&v)[4], float* sums) {
  const Floats d;
  const hn::Repartition<double, Floats> pairs;
  const Vector ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const Vector cd = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto ab_pairs = hn::BitCast(pairs, ab);
  const auto cd_pairs = hn::BitCast(pairs, cd);
  const Vector low = hn::BitCast(d, hn::InterleaveLower(pairs, ab_pairs, cd_pairs));
  const Vector high = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_pairs, cd_pairs));
  store_sum_of_blocks(d, hn::Add(low, high), sums);
}
#endif

// left[i][c] (+)= tile[i] · panel[c], the scalar products along the columns of a panel.
template <std::size_t kRows, std::size_t kRanks>
HWY_INLINE void dot_products(Lines tile, Lines panel, std::size_t width, bool add,
                             float* HWY_RESTRICT left, std::size_t rank) {
  const Floats d;
  Vector sum[kRows][kDotRanks];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (std::size_t c = 0; c < kDotRanks; ++c) sum[i][c] = hn::Zero(d);
  }
  for (std::size_t j = 0; j < width; j += kLanes) {
    Vector values[kRows];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRows; ++i) values[i] = hn::Load(d, tile.at(i, j));
#pragma GCC unroll 4
    for (std::size_t c = 0; c < kRanks; ++c) {
      const Vector right = hn::Load(d, panel.at(c, j));
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kRows; ++i) {
        sum[i][c] = hn::MulAdd(values[i], right, sum[i][c]);
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRows; ++i) {
    float* target = left + i * rank;
    float sums[kDotRanks];
    sums_of_lanes(sum[i], sums);
    for (std::size_t c = 0; c < kRanks; ++c) target[c] = add ? target[c] + sums[c] : sums[c];
  }
}

template <std::size_t kRows = kDotRows, std::size_t kRanks = kDotRanks>
HWY_INLINE void dot_products_block(std::size_t rows, std::size_t ranks, Lines tile, Lines panel,
                                   std::size_t width, bool add, float* left, std::size_t rank) {
  if (rows == kRows && ranks == kRanks) {
    dot_products<kRows, kRanks>(tile, panel, width, add, left, rank);
  } else if (ranks == kRanks) {
    if constexpr (kRows > 1) {
      dot_products_block<kRows - 1, kRanks>(rows, ranks, tile, panel, width, add, left, rank);
    }
  } else if constexpr (kRanks > 1) {
    dot_products_block<kRows, kRanks - 1>(rows, ranks, tile, panel, width, add, left, rank);
  }
}

// sums[c][j] += Σ over the tile's rows i of tile[i][j] · left[i][c], `sums` laid out like a panel.
template <std::size_t kVectors, std::size_t kRanks>
HWY_INLINE void column_sums(Lines tile, std::size_t rows, const float* HWY_RESTRICT left,
                            std::size_t rank, Lines sums) {
  const Floats d;
  Vector sum[kRanks][kVectors];
#pragma GCC unroll 4
  for (std::size_t c = 0; c < kRanks; ++c) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      sum[c][v] = hn::Load(d, sums.at(c, v * kLanes));
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    Vector values[kVectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      values[v] = hn::Load(d, tile.at(i, v * kLanes));
    }
#pragma GCC unroll 4
    for (std::size_t c = 0; c < kRanks; ++c) {
      const Vector weight = hn::Set(d, left[i * rank + c]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        sum[c][v] = hn::MulAdd(values[v], weight, sum[c][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t c = 0; c < kRanks; ++c) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::Store(sum[c][v], d, sums.at(c, v * kLanes));
    }
  }
}

template <std::size_t kVectors = kColumnVectors, std::size_t kRanks = kDotRanks>
HWY_INLINE void column_sums_block(std::size_t vectors, std::size_t ranks, Lines tile,
                                  std::size_t rows, const float* left, std::size_t rank,
                                  Lines sums) {
  if (vectors == kVectors && ranks == kRanks) {
    column_sums<kVectors, kRanks>(tile, rows, left, rank, sums);
  } else if (ranks == kRanks) {
    if constexpr (kVectors > 1) {
      column_sums_block<kVectors - 1, kRanks>(vectors, ranks, tile, rows, left, rank, sums);
    }
  } else if constexpr (kRanks > 1) {
    column_sums_block<kVectors, kRanks - 1>(vectors, ranks, tile, rows, left, rank, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gradwire::kernels::low_rank
HWY_AFTER_NAMESPACE();

#endif  // GRADWIRE_KERNELS_LOW_RANK_MICRO_INL_H_
