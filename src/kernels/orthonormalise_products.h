#pragma once

#include <cstddef>

// The two products of a Cholesky QR, in double. Squares of a factor's entries then neither overflow
// nor vanish, and the Gram matrix of a factor of condition 1e6 still tells its columns apart.
namespace gradwire::kernels {

// This many rows of a factor are converted to double at a time.
inline constexpr std::size_t kOrthonormaliseBlockRows = 32;

// Small square matrices are stored with this many doubles per row, padded with zeros.
inline constexpr std::size_t padded_rank(std::size_t rank) { return (rank + 7) / 8 * 8; }

// gram = factorᵀ · factor. Only entries on and above the diagonal are set. `block` has room for
// kOrthonormaliseBlockRows · padded_rank doubles. It and `gram` are aligned to 64 bytes.
void gram_matrix(const float* factor, std::size_t rows, std::size_t rank, double* block,
                 double* gram);

// factor = factor · triangle. The triangle is an upper one and aligned to 64 bytes. `block` has
// twice the room that gram_matrix() needs.
void multiply_by_triangle(float* factor, std::size_t rows, std::size_t rank, const double* triangle,
                          double* block);

}  // namespace gradwire::kernels
