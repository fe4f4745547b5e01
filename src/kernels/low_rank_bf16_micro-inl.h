// The register-blocked products of the target with bf16. low_rank_bf16.cpp includes this file
// between its attributes for the target.

namespace gradwire::kernels::low_rank::bf16 {
namespace {

using Vector = __m512;

// So many ranks of two vectors of sums are kept in registers.
constexpr std::size_t kSumRanks = 8;

template <std::size_t kRows>
using StripValues = Vector[kRows][2];

// Each lane adds the two products of a pair to its sum.
HWY_INLINE Vector add_products(Vector sum, Vector a, Vector b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

// Pairs of neighbours: first[0], first[1]; first[2], first[3]; and so on.
HWY_INLINE Vector pairs_along(Vector first, Vector second) {
  return (Vector)_mm512_cvtne2ps_pbh(second, first);
}

// Pairs of first[0], second[0]; first[1], second[1]; and so on.
HWY_INLINE Vector pairs_across(Vector first, Vector second) {
  alignas(64) static constexpr std::uint16_t kInterleave[2 * kLanes] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  return (Vector)_mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), halves);
}

HWY_INLINE __mmask16 first_lanes(std::size_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xFFFF : (1U << count) - 1);
}

// Which of a strip's or factor row's columns exist, from one of them on.
struct Masks {
  explicit Masks(std::size_t columns)
      : lanes{first_lanes(columns), first_lanes(columns - std::min(columns, kLanes))} {}
  __mmask16 lanes[2];
};

bool all_finite(const float* values, std::size_t count) {
  const Vector zero = _mm512_setzero_ps();
  Vector sum = zero;  // of zeros, or NaN
  for (std::size_t i = 0; i < count; i += kLanes) {
    const Vector part = _mm512_maskz_loadu_ps(first_lanes(count - i), values + i);
    sum = _mm512_fmadd_ps(part, zero, sum);
  }
  return _mm512_cmp_ps_mask(sum, zero, _CMP_EQ_OQ) == 0xFFFF;
}

// values = left · right, where `right` is the strip's part of a factor.
template <std::size_t kRows>
HWY_INLINE void outer_product(const float* HWY_RESTRICT left, std::size_t rank,
                              const float* HWY_RESTRICT right, StripValues<kRows>& values) {
#pragma GCC unroll 12
  for (std::size_t i = 0; i < kRows; ++i) values[i][0] = values[i][1] = _mm512_setzero_ps();
  for (std::size_t c = 0; c < rank; ++c) {
    const Vector right0 = _mm512_load_ps(right + c * kStripColumns);
    const Vector right1 = _mm512_load_ps(right + c * kStripColumns + kLanes);
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
      const Vector weight = _mm512_set1_ps(left[i * rank + c]);
      values[i][0] = _mm512_fmadd_ps(weight, right0, values[i][0]);
      values[i][1] = _mm512_fmadd_ps(weight, right1, values[i][1]);
    }
  }
}

// left[i][c] (+)= Σ over the pairs p of tile[i][p] · factor[p][c]
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void row_sums(Lines tile, Lines factor, std::size_t pairs, bool add, const Masks& masks,
                         float* HWY_RESTRICT left, std::size_t rank, Prefetcher& later) {
  Vector sum[kRows][kVectors];
#pragma GCC unroll 12
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      const __mmask16 mask = add ? masks.lanes[v] : __mmask16{0};
      sum[i][v] = _mm512_maskz_loadu_ps(mask, left + i * rank + v * kLanes);
    }
  }
  for (std::size_t p = 0; p < pairs; ++p) {
    later.fetch(2);
    Vector right[kVectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) right[v] = _mm512_load_ps(factor.at(p, v * kLanes));
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
      const Vector value = _mm512_set1_ps(*tile.at(i, p));
#pragma GCC unroll 2
      for (std::size_t v = 0; v < kVectors; ++v) {
        sum[i][v] = add_products(sum[i][v], value, right[v]);
      }
    }
  }
#pragma GCC unroll 12
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      _mm512_mask_storeu_ps(left + i * rank + v * kLanes, masks.lanes[v], sum[i][v]);
    }
  }
}

template <std::size_t kRows = kStripRows>
HWY_INLINE void row_sums_block(std::size_t rows, Lines tile, Lines factor, std::size_t pairs,
                               bool add, float* left, std::size_t rank, std::size_t from,
                               Prefetcher& later) {
  if (rows != kRows) {
    if constexpr (kRows > 1) {
      row_sums_block<kRows - 1>(rows, tile, factor, pairs, add, left, rank, from, later);
    }
  } else if (rank - from > kLanes) {
    row_sums<kRows, 2>(tile, factor, pairs, add, Masks(rank - from), left, rank, later);
  } else {
    row_sums<kRows, 1>(tile, factor, pairs, add, Masks(rank - from), left, rank, later);
  }
}

// sums[c][j] += Σ over the pairs p of tile[p][j] · factor[p][c], for the columns j of a strip.
template <std::size_t kRanks>
HWY_INLINE void column_sums(Lines tile, std::size_t pairs, Lines factor, Lines sums) {
  Vector sum[kRanks][2];
#pragma GCC unroll 8
  for (std::size_t c = 0; c < kRanks; ++c) {
    sum[c][0] = _mm512_load_ps(sums.at(c, 0));
    sum[c][1] = _mm512_load_ps(sums.at(c, kLanes));
  }
  for (std::size_t p = 0; p < pairs; ++p) {
    const Vector values0 = _mm512_load_ps(tile.at(p, 0));
    const Vector values1 = _mm512_load_ps(tile.at(p, kLanes));
#pragma GCC unroll 8
    for (std::size_t c = 0; c < kRanks; ++c) {
      const Vector weight = _mm512_set1_ps(*factor.at(p, c));
      sum[c][0] = add_products(sum[c][0], values0, weight);
      sum[c][1] = add_products(sum[c][1], values1, weight);
    }
  }
#pragma GCC unroll 8
  for (std::size_t c = 0; c < kRanks; ++c) {
    _mm512_store_ps(sums.at(c, 0), sum[c][0]);
    _mm512_store_ps(sums.at(c, kLanes), sum[c][1]);
  }
}

template <std::size_t kRanks = kSumRanks>
HWY_INLINE void column_sums_block(std::size_t ranks, Lines tile, std::size_t pairs, Lines factor,
                                  Lines sums) {
  if (ranks == kRanks) {
    column_sums<kRanks>(tile, pairs, factor, sums);
  } else if constexpr (kRanks > 1) {
    column_sums_block<kRanks - 1>(ranks, tile, pairs, factor, sums);
  }
}

}  // namespace
}  // namespace gradwire::kernels::low_rank::bf16
