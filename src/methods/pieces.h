#pragma once

// For the sources that call kernels: tensors as spans, and a loop over their elements.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <span>

namespace gradwire {

// None of a tensor that is not defined.
inline std::span<float> floats_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// Elements that are worth another thread.
inline constexpr int64_t kPiece = 65536;

// Calls function(first element, number of elements), in parallel where there are several pieces.
// Nothing depends on the number of threads: a piece always begins at a multiple of its length.
template <typename Function>
void for_each_piece(int64_t elements, int64_t piece, const Function& function) {
  at::parallel_for(0, (elements + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * piece; first < std::min(end * piece, elements); first += piece) {
      function(static_cast<size_t>(first), static_cast<size_t>(std::min(piece, elements - first)));
    }
  });
}
template <typename Function>
void for_each_piece(int64_t elements, const Function& function) {
  for_each_piece(elements, kPiece, function);
}

}  // namespace gradwire
