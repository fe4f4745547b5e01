#pragma once

#include <cstddef>
#include <span>

namespace gradwire::kernels {

// The number of doubles that orthonormalise() needs as scratch.
std::size_t orthonormalise_scratch(std::size_t rank);

// Replaces the columns of a row-major rows x rank matrix, rank <= rows, by an orthonormal basis
// whose span contains theirs. Columns may have any magnitude, and they may be dependent or zero:
// then the basis is completed, always in the same way. A column with an infinity or NaN counts as
// zero. It runs on one thread, so every worker finds the same bits, whatever its number of threads.
void orthonormalise(float* factor, std::size_t rows, std::size_t rank, std::span<double> scratch);

}  // namespace gradwire::kernels
