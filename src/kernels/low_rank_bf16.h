#pragma once

#include <cstddef>
#include <span>

#include "kernels/low_rank.h"
#include "kernels/low_rank_encode_step.h"

// The products of the low-rank methods on processors with AVX-512 and bf16.
//
// The matrix and the factor it is multiplied by are rounded to bf16, and the products are added up
// in fp32, at up to twice the rate of fp32. Error feedback takes up what the rounding costs: the
// factor that comes out is the one that is sent and subtracted. So A itself, and the pending
// product that is settled in it, stay in fp32, with the bits of the AVX-512 target.
//
// The functions return what those of low_rank.h need. Numbers that bf16 cannot hold, from 3.39e38
// on, make the product infinite.
namespace gradwire::kernels::low_rank::bf16 {

// Whether this machine can run these functions.
bool supported();

std::size_t scratch_floats(const Shape& shape);

Progress encode_left(const EncodeStep& step, const float* right, float* left, Range rows,
                     std::span<float> scratch);
Progress encode_right(const EncodeStep& step, const float* left, float* right, Range columns,
                      std::span<float> scratch);
void multiply(const Shape& shape, const float* matrix, const float* right, float* left, Range rows,
              std::span<float> scratch);
void multiply_transposed(const Shape& shape, const float* matrix, const float* left, float* right,
                         Range columns, std::span<float> scratch);

}  // namespace gradwire::kernels::low_rank::bf16
