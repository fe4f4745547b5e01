#pragma once

#include <ATen/ATen.h>

#include <memory>

namespace gradwire {

// The matrix that a low-rank method works on: A = M + E, the gradient plus what earlier steps left
// unsent, and what becomes of E when A is approximated by left · rightᵀ.
//
// A step is: encode_left() or encode_right(), perhaps multiply_transposed(), then subtract(). Where
// it turns out that some worker's gradient was not finite, cancel() takes the step back. Factors
// handed to subtract() may be read until the next encode: they must not be changed any more.
class ErrorMatrix {
 public:
  virtual ~ErrorMatrix() = default;

  // A = M + E; left = A · right. False, with E as before (up to rounding), if A or the product is
  // not finite.
  virtual bool encode_left(const at::Tensor& gradient, const at::Tensor& right,
                           at::Tensor& left) = 0;
  // A = M + E; right = Aᵀ · left.
  virtual bool encode_right(const at::Tensor& gradient, const at::Tensor& left,
                            at::Tensor& right) = 0;
  // right = Aᵀ · left with the A of the last encode.
  virtual void multiply_transposed(const at::Tensor& left, at::Tensor& right) = 0;
  // E = A − left · rightᵀ.
  virtual void subtract(const at::Tensor& left, const at::Tensor& right) = 0;
  // E = A − M: as if the last encode, and a subtract() after it, had not been.
  virtual void cancel(const at::Tensor& gradient) = 0;

  // E itself, with nothing outstanding.
  virtual at::Tensor& residual() = 0;
};

// result = factor · left · rightᵀ. The same bits on every worker, whatever its number of threads.
void multiply_factors(const at::Tensor& left, const at::Tensor& right, double factor,
                      at::Tensor& result);

// Replaces the columns by an orthonormal basis of the space they span, completed where they are
// linearly dependent. Depends on nothing but its input, so that every worker gets the same.
void orthonormalise(at::Tensor& factor);

// With the kernels (for tensors on the CPU), or in ATen ops (on any device).
std::unique_ptr<ErrorMatrix> make_kernel_error_matrix(int64_t rows, int64_t columns);
std::unique_ptr<ErrorMatrix> make_aten_error_matrix(int64_t rows, int64_t columns,
                                                    const at::TensorOptions& options);

}  // namespace gradwire
