#include "kernels/orthonormalise_products.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/orthonormalise_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::ScalableTag<double>;
using Vector = hn::Vec<Doubles>;

constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
// Four rows of a product and two vectors of its columns are accumulated in registers.
constexpr std::size_t kGroup = 4;

// The padding stays zero, so that inner loops need no tails.
void convert_block(const float* factor, std::size_t rows, std::size_t rank,
                   double* HWY_RESTRICT block) {
  const std::size_t stride = padded_rank(rank);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t c = 0; c < rank; ++c) block[i * stride + c] = factor[i * rank + c];
    for (std::size_t c = rank; c < stride; ++c) block[i * stride + c] = 0.0;
  }
}

// target[g][v] (+)= Σ over k < count of weights[k · weight_step + g · weight_group] · rows[k][v]
template <std::size_t kVectors>
HWY_INLINE void accumulate(const double* HWY_RESTRICT weights, std::size_t weight_step,
                           std::size_t weight_group, const double* HWY_RESTRICT rows,
                           std::size_t stride, std::size_t count, bool add,
                           double* HWY_RESTRICT target) {
  const Doubles d;
  Vector sum[kGroup][kVectors];
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroup; ++g) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      sum[g][v] = add ? hn::Load(d, target + g * stride + v * kLanes) : hn::Zero(d);
    }
  }
  for (std::size_t k = 0; k < count; ++k) {
    Vector values[kVectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v)
      values[v] = hn::Load(d, rows + k * stride + v * kLanes);
#pragma GCC unroll 4
    for (std::size_t g = 0; g < kGroup; ++g) {
      const Vector weight = hn::Set(d, weights[k * weight_step + g * weight_group]);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < kVectors; ++v)
        sum[g][v] = hn::MulAdd(weight, values[v], sum[g][v]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroup; ++g) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::Store(sum[g][v], d, target + g * stride + v * kLanes);
    }
  }
}

// Calls f(column, vectors) for the columns from `begin` on, two vectors at a time where they fit.
template <class Body>
HWY_INLINE void for_vector_pairs(std::size_t begin, std::size_t end, const Body& body) {
  for (std::size_t column = begin; column < end;) {
    const bool pair = column + 2 * kLanes <= end;
    body(column, pair);
    column += pair ? 2 * kLanes : kLanes;
  }
}

struct GramBlock {
  const double* block;
  std::size_t stride, rows, group;
  bool add;
  double* gram;

  HWY_INLINE void operator()(std::size_t column, bool pair) const {
    double* target = gram + group * stride + column;
    if (pair) {
      accumulate<2>(block + group, stride, 1, block + column, stride, rows, add, target);
    } else {
      accumulate<1>(block + group, stride, 1, block + column, stride, rows, add, target);
    }
  }
};

void gram_matrix_target(const float* factor, std::size_t rows, std::size_t rank, double* block,
                        double* gram) {
  const std::size_t stride = padded_rank(rank);
  std::fill_n(gram, stride * stride, 0.0);
  for (std::size_t row = 0; row < rows; row += kOrthonormaliseBlockRows) {
    const std::size_t count = std::min(kOrthonormaliseBlockRows, rows - row);
    convert_block(factor + row * rank, count, rank, block);
    for (std::size_t group = 0; group < rank; group += kGroup) {
      for_vector_pairs(group / kLanes * kLanes, stride,
                       GramBlock{block, stride, count, group, true, gram});
    }
  }
}

struct TriangleBlock {
  const double* block;
  const double* triangle;
  std::size_t stride, rank, group;
  double* product;

  HWY_INLINE void operator()(std::size_t column, bool pair) const {
    const double* weights = block + group * stride;
    double* target = product + group * stride + column;
    const std::size_t count = std::min(rank, column + (pair ? 2 : 1) * kLanes);
    if (pair) {
      accumulate<2>(weights, 1, stride, triangle + column, stride, count, false, target);
    } else {
      accumulate<1>(weights, 1, stride, triangle + column, stride, count, false, target);
    }
  }
};

void multiply_by_triangle_target(float* factor, std::size_t rows, std::size_t rank,
                                 const double* triangle, double* block) {
  const std::size_t stride = padded_rank(rank);
  double* product = block + kOrthonormaliseBlockRows * stride;
  for (std::size_t row = 0; row < rows; row += kOrthonormaliseBlockRows) {
    const std::size_t count = std::min(kOrthonormaliseBlockRows, rows - row);
    float* part = factor + row * rank;
    convert_block(part, count, rank, block);
    std::fill(block + count * stride, product, 0.0);
    for (std::size_t group = 0; group < count; group += kGroup) {
      for_vector_pairs(0, stride, TriangleBlock{block, triangle, stride, rank, group, product});
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t c = 0; c < rank; ++c) {
        part[i * rank + c] = static_cast<float>(product[i * stride + c]);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {
namespace {

HWY_EXPORT(gram_matrix_target);
HWY_EXPORT(multiply_by_triangle_target);

}  // namespace

void gram_matrix(const float* factor, std::size_t rows, std::size_t rank, double* block,
                 double* gram) {
  HWY_DYNAMIC_DISPATCH(gram_matrix_target)(factor, rows, rank, block, gram);
}

void multiply_by_triangle(float* factor, std::size_t rows, std::size_t rank, const double* triangle,
                          double* block) {
  HWY_DYNAMIC_DISPATCH(multiply_by_triangle_target)(factor, rows, rank, triangle, block);
}

}  // namespace gradwire::kernels
#endif
