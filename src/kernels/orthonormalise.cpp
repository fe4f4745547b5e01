#include "kernels/orthonormalise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/orthonormalise_products.h"

// Cholesky QR. A round computes the Gram matrix G of the columns, scaled to length one, factorises
// G = RᵀR and multiplies the columns by R⁻¹. The diagonal of R is the sine of each column's angle
// to the columns before it: its square, the *pivot*, tells how many digits the round loses.
//
// - If all pivots are large, one round is exact to the rounding of the stored floats.
// - If a pivot is small, the columns come out nearly orthonormal, and another round corrects them.
// - If a pivot is as small as the rounding of the Gram matrix, the column is *missing*: it depends
//   on those before it. A unit vector takes its place, and another round makes it orthogonal.
namespace gradwire::kernels {
namespace {

constexpr double kMissingPivot = 1e-12;
constexpr double kCleanPivot = 1e-7;
// Three rounds are needed at most, for missing columns, for an ill-conditioned remainder and for
// the last correction. Two are in reserve.
constexpr int kMostRounds = 5;
constexpr std::size_t kAlignedDoubles = 8;

// Unit vectors come from the first rows only. Among twice as many rows as columns there is always
// one at an angle of at least 45 degrees to all the columns.
std::size_t candidate_rows(std::size_t rank) { return 2 * rank; }

struct Workspace {
  Workspace(std::size_t rank, std::span<double> scratch) : stride(padded_rank(rank)) {
    const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
    const std::size_t line = kAlignedDoubles * sizeof(double);
    block = scratch.data() + ((address + line - 1) / line * line - address) / sizeof(double);
    gram = block + 2 * kOrthonormaliseBlockRows * stride;
    inverse = gram + stride * stride;
    projector = inverse + stride * stride;
  }

  static std::size_t doubles(std::size_t rank) {
    const std::size_t stride = padded_rank(rank);
    const std::size_t candidates = candidate_rows(rank);
    return kAlignedDoubles + 2 * kOrthonormaliseBlockRows * stride + 2 * stride * stride +
           candidates * candidates;
  }

  std::size_t stride;
  double* block;
  double* gram;
  double* inverse;
  double* projector;
};

bool usable_norm(double square) { return square > 0.0 && std::isfinite(square); }

// Factorises the scaled Gram matrix in place, G = RᵀR. Missing columns get a zero on the diagonal
// and take no part. Returns the smallest pivot of the others.
double factorise(double* gram, std::size_t stride, std::size_t rank) {
  double smallest = 1.0;
  for (std::size_t c = 0; c < rank; ++c) {
    double pivot = gram[c * stride + c];
    for (std::size_t k = 0; k < c; ++k) {
      double& entry = gram[k * stride + c];
      if (gram[k * stride + k] == 0.0) {
        entry = 0.0;
        continue;
      }
      for (std::size_t l = 0; l < k; ++l) entry -= gram[l * stride + k] * gram[l * stride + c];
      entry /= gram[k * stride + k];
      pivot -= entry * entry;
    }
    const bool present = pivot > kMissingPivot;
    gram[c * stride + c] = present ? std::sqrt(pivot) : 0.0;
    if (present) smallest = std::min(smallest, pivot);
  }
  return smallest;
}

// The inverse of R. Rows and columns of missing columns are zero.
void invert(const double* upper, std::size_t stride, std::size_t rank, double* inverse) {
  std::fill_n(inverse, stride * stride, 0.0);
  for (std::size_t c = 0; c < rank; ++c) {
    const double diagonal = upper[c * stride + c];
    if (diagonal == 0.0) continue;
    inverse[c * stride + c] = 1.0 / diagonal;
    for (std::size_t k = 0; k < c; ++k) {
      double sum = 0.0;
      for (std::size_t l = k; l < c; ++l) sum += inverse[k * stride + l] * upper[l * stride + c];
      inverse[k * stride + c] = -sum / diagonal;
    }
  }
}

void clear_column(float* factor, std::size_t rows, std::size_t rank, std::size_t column) {
  for (std::size_t i = 0; i < rows; ++i) factor[i * rank + column] = 0.0F;
}

// Does one round and returns the smallest pivot. Missing columns become zero, with a zero on the
// diagonal of `work.gram`.
double orthonormalise_round(float* factor, std::size_t rows, std::size_t rank,
                            const Workspace& work) {
  const std::size_t stride = work.stride;
  gram_matrix(factor, rows, rank, work.block, work.gram);
  double* scale = work.block;  // is not in use between the two products
  for (std::size_t c = 0; c < rank; ++c) {
    const double square = work.gram[c * stride + c];
    if (!std::isfinite(square)) clear_column(factor, rows, rank, c);
    scale[c] = usable_norm(square) ? 1.0 / std::sqrt(square) : 0.0;
  }
  for (std::size_t c = 0; c < rank; ++c) {
    for (std::size_t k = 0; k <= c; ++k) {
      double& entry = work.gram[k * stride + c];
      // A product with zero would not do: the entries of an unusable column may be NaN.
      entry = scale[k] == 0.0 || scale[c] == 0.0 ? 0.0 : entry * scale[k] * scale[c];
    }
  }
  const double smallest = factorise(work.gram, stride, rank);
  invert(work.gram, stride, rank, work.inverse);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t c = k; c < rank; ++c) work.inverse[k * stride + c] *= scale[k];
  }
  multiply_by_triangle(factor, rows, rank, work.inverse, work.block);
  return smallest;
}

// Computes I − U Uᵀ, where U is the first `count` rows of a factor.
void fill_projector(const float* factor, std::size_t rank, std::size_t count, double* projector) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      double sum = i == j ? 1.0 : 0.0;
      for (std::size_t c = 0; c < rank; ++c) {
        sum -= double{factor[i * rank + c]} * factor[j * rank + c];
      }
      projector[i * count + j] = sum;
    }
  }
}

// Projects one more unit vector out.
void eliminate(double* projector, std::size_t count, std::size_t taken) {
  const double pivot = projector[taken * count + taken];
  for (std::size_t i = 0; i < count; ++i) {
    if (i == taken) continue;
    const double weight = projector[i * count + taken] / pivot;
    for (std::size_t j = 0; j < count; ++j) {
      projector[i * count + j] -= weight * projector[taken * count + j];
    }
  }
  std::fill_n(projector + taken * count, count, 0.0);
}

// Puts unit vectors in the place of missing columns and returns whether there were any. The
// diagonal of the projector is the squared distance of each candidate from the span of the columns
// present and of the vectors taken so far. The farthest candidate is taken.
bool complete(float* factor, std::size_t rows, std::size_t rank, const Workspace& work) {
  const auto missing = [&](std::size_t c) { return work.gram[c * work.stride + c] == 0.0; };
  const std::size_t count = std::min(rows, candidate_rows(rank));
  bool any = false;
  for (std::size_t c = 0; c < rank; ++c) {
    if (!missing(c)) continue;
    if (!any) fill_projector(factor, rank, count, work.projector);
    any = true;
    std::size_t farthest = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (work.projector[i * count + i] > work.projector[farthest * count + farthest]) farthest = i;
    }
    if (!(work.projector[farthest * count + farthest] > 0.0)) break;
    eliminate(work.projector, count, farthest);
    factor[farthest * rank + c] = 1.0F;
  }
  return any;
}

}  // namespace

std::size_t orthonormalise_scratch(std::size_t rank) { return Workspace::doubles(rank); }

void orthonormalise(float* factor, std::size_t rows, std::size_t rank, std::span<double> scratch) {
  const Workspace work(rank, scratch);
  for (int round = 0; round < kMostRounds; ++round) {
    const double smallest = orthonormalise_round(factor, rows, rank, work);
    if (!complete(factor, rows, rank, work) && smallest >= kCleanPivot) return;
  }
}

}  // namespace gradwire::kernels
