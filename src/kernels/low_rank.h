#pragma once

#include <cstddef>
#include <span>

// Arithmetic of the low-rank methods on fp32 matrices.
//
// Vocabulary. The gradient M and the residual are rows x columns, row-major and without gaps. A
// factor pair stands for the matrix left · rightᵀ; left is rows x rank, right is columns x rank,
// both row-major.
//
// The residual buffer is lazy. An encode step replaces it by A = M + E, and the product that is
// sent, left · rightᵀ, stays *pending*. The true residual is E = buffer − left · rightᵀ. The next
// encode settles it, since it reads the buffer anyway. So one pass over memory serves both steps,
// and the factor may still be rounded for sending: the pair that the caller keeps is the one that
// is subtracted. Settling first and then encoding with nothing pending gives the same bits.
//
// The best SIMD target (low_rank_bf16.h) rounds the operands of A · right and Aᵀ · left to bf16.
// All else is fp32 on every target: the pair that is sent is the pair that is subtracted, so what
// the rounding leaves unsent stays in the residual.
//
// Every function works on a range of rows or of columns, and no result depends on how a matrix is
// split into ranges. Ranges of some hundred rows keep the cost of packing the factors low. No
// function allocates: `scratch` needs scratch_floats(shape) elements, and concurrent calls need a
// buffer each.
namespace gradwire::kernels::low_rank {

struct Shape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A default-constructed pair is the zero matrix, so nothing is pending.
struct FactorPair {
  const float* left = nullptr;
  const float* right = nullptr;
};

std::size_t scratch_floats(const Shape& shape);

// Settles E from `residual` and `pending`, then computes residual = A = M + E and left = A · right,
// for a range of rows. Returns false if A or the product is not finite. Then these rows of
// `residual` hold the settled E, up to rounding, and these rows of `left` are unspecified. `left`
// must not alias `pending.left`.
[[nodiscard]] bool encode_left(const Shape& shape, const float* gradient, float* residual,
                               FactorPair pending, const float* right, float* left, Range rows,
                               std::span<float> scratch);

// The same with right = Aᵀ · left, for a range of columns. `right` must not alias `pending.right`.
[[nodiscard]] bool encode_right(const Shape& shape, const float* gradient, float* residual,
                                FactorPair pending, const float* left, float* right, Range columns,
                                std::span<float> scratch);

// left = matrix · right, for a range of rows.
void multiply(const Shape& shape, const float* matrix, const float* right, float* left, Range rows,
              std::span<float> scratch);

// right = matrixᵀ · left, for a range of columns.
void multiply_transposed(const Shape& shape, const float* matrix, const float* left, float* right,
                         Range columns, std::span<float> scratch);

// result = left · (right · factor)ᵀ, for a range of rows.
void decode(const Shape& shape, FactorPair factors, float factor, float* result, Range rows,
            std::span<float> scratch);

// residual −= left · rightᵀ, for a range of rows. Afterwards nothing is pending there.
void settle(const Shape& shape, FactorPair pending, float* residual, Range rows,
            std::span<float> scratch);

// Rolls an encode step back on some rows and columns: residual −= gradient, which leaves E,
// settled.
void roll_back(const Shape& shape, const float* gradient, float* residual, Range rows,
               Range columns);

}  // namespace gradwire::kernels::low_rank
