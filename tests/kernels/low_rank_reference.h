#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "kernels/low_rank.h"

// The low-rank steps as in the literature, in double, with E always settled.
namespace gradwire::kernels::low_rank::reference {

using Matrix = std::vector<float>;

inline Matrix random_matrix(std::size_t count, unsigned seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  Matrix values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

// left · rightᵀ
inline std::vector<double> product(const Shape& shape, const Matrix& left, const Matrix& right) {
  std::vector<double> result(shape.rows * shape.columns, 0.0);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      for (std::size_t c = 0; c < shape.rank; ++c) {
        result[i * shape.columns + j] +=
            double{left[i * shape.rank + c]} * right[j * shape.rank + c];
      }
    }
  }
  return result;
}

// matrix · right
inline std::vector<double> times_right(const Shape& shape, const Matrix& matrix,
                                       const Matrix& right) {
  std::vector<double> left(shape.rows * shape.rank, 0.0);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      for (std::size_t c = 0; c < shape.rank; ++c) {
        left[i * shape.rank + c] +=
            double{matrix[i * shape.columns + j]} * right[j * shape.rank + c];
      }
    }
  }
  return left;
}

// matrixᵀ · left
inline std::vector<double> transposed_times_left(const Shape& shape, const Matrix& matrix,
                                                 const Matrix& left) {
  std::vector<double> right(shape.columns * shape.rank, 0.0);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      for (std::size_t c = 0; c < shape.rank; ++c) {
        right[j * shape.rank + c] +=
            double{matrix[i * shape.columns + j]} * left[i * shape.rank + c];
      }
    }
  }
  return right;
}

}  // namespace gradwire::kernels::low_rank::reference
