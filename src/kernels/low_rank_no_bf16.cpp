// Takes the place of low_rank_bf16.cpp where the compiler does not know these instructions.

#include "kernels/low_rank_bf16.h"

namespace gradwire::kernels::low_rank::bf16 {

bool supported() { return false; }

std::size_t scratch_floats(const Shape&) { return 0; }

// Nobody calls the products of a target that is not supported.

Progress encode_left(const EncodeStep&, const float*, float*, Range, std::span<float>) {
  return {};
}

Progress encode_right(const EncodeStep&, const float*, float*, Range, std::span<float>) {
  return {};
}

void multiply(const Shape&, const float*, const float*, float*, Range, std::span<float>) {}

void multiply_transposed(const Shape&, const float*, const float*, float*, Range,
                         std::span<float>) {}

}  // namespace gradwire::kernels::low_rank::bf16
