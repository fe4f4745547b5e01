#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/quant_format.h"

// Block quantisation: the elements of a parameter in blocks, one scale per block and a few bits per
// element. All bits of all results are the same on every SIMD target.
//
// Scale and levels. An element is sent as level * scale. With x the numbers of a block:
//
//   bits  levels              scale
//   8     -127, -126 .. 127   max |x| / 127 rounded up to bf16, but at least 2^-126
//   4     -7, -6 .. 7         max |x| / 7 rounded up to bf16, but at least 2^-126
//   2     -1.5 -0.5 0.5 1.5   mean |x|, rounded to the nearest bf16
//   1     -1, 1               mean |x|, rounded to the nearest bf16
//
// With 8 and 4 bits the level is x * (1 / scale), both operations rounded to fp32, then rounded to
// the nearest integer, ties to even. Nothing clips, and level * scale is within (1/2 + 2^-16) *
// scale of x. The lower limit of the scale keeps its reciprocal finite. With 2 bits |x| >= scale
// takes a level of magnitude 1.5. With 2 bits and 1 bit, x < 0 takes a negative level; -0 does not.
// Every product level * scale is exact in fp32. A block of zeros has the scale 0, as has one with 2
// bits or 1 whose mean rounds to 0; it decodes to 0.
//
// The mean is summed up in fp32 in 32 lanes: element i of the block is added in lane i % 32, and
// then the upper half of the lanes to the lower half, until one is left.
//
// A block is not finite if it holds an inf, a NaN or a magnitude of 2^126 or more, or if with 2
// bits or 1 the sum of its magnitudes overflows. Its scale is NaN, its codes are 0, and it decodes
// to NaN. The limit leaves room for what is computed from decoded numbers, so a residual stays
// finite.
//
// Records. A block is one record: the scale as bf16 (2 bytes, the machine's byte order), then the
// codes. A code is the level as an integer in two's complement, with 2 bits the level - 0.5. With
// 1 bit it is 1 for the level 1, and 0 for -1. Element i of a block starts at bit i * bits of the
// codes, counted from the least significant bit of the first byte. The records of consecutive
// blocks follow each other without gaps. If the last block is short, so is its record, and unused
// bits of its last byte are 0. Bytes that are all zero are the records of zeros: a worker that
// abstains sends them.
//
// The elements of every function begin at the first element of a block, and may end anywhere. So
// the work may be split between threads and slices at block boundaries: block k begins at element
// k * block and at byte k * record_bytes(). Blocks are independent of each other, and functions
// that return whether all is finite do so for their own blocks.
//
// Error feedback. A parameter that is not finite must leave its residuals as they were, on every
// worker:
//  1. quantise() leaves the residual of a block that is not finite untouched. If it returns false
//     for a part of a parameter, the worker calls roll_back_quantised() on the whole parameter at
//     once, and then mark_not_finite(), so that the owner of every slice hears of it.
//  2. average_quantised() leaves the residual untouched where an incoming block is not finite.
//  3. When the averages have arrived, and before they replace the gradient: a worker that finds one
//     with all_finite() false calls roll_back_average() for the slice that it owns, if it had
//     called average_quantised(), and roll_back_quantised() if it had not yet done so. So it still
//     needs the records that it sent and received.
namespace gradwire::kernels {

// With G = gradient + residual, writes the records of G and replaces the residual by G - what the
// records decode to. With 8 and 4 bits that difference is exact. An empty residual stands for no
// error feedback: G = gradient. Returns whether all blocks are finite; the residual of one that is
// not stays as it was.
bool quantise(QuantFormat format, std::span<const float> gradient, std::span<float> residual,
              std::span<std::uint8_t> records);

// Makes the residual what it was before quantise(), up to the rounding of additions, in all blocks
// that were finite then.
void roll_back_quantised(QuantFormat format, std::span<const float> gradient,
                         std::span<const std::uint8_t> records, std::span<float> residual);

// Replaces the records of this many elements by those of blocks that are not finite.
void mark_not_finite(QuantFormat format, std::size_t elements, std::span<std::uint8_t> records);

// Whether no block of this many elements is marked as not finite.
bool all_finite(QuantFormat format, std::size_t elements, std::span<const std::uint8_t> records);

// What the owner of a slice does: decodes all N >= 1 parts, adds them up in fp32 in their order,
// from +0 on, multiplies by 1 / N, and writes the records of this mean. An averaged block is not
// finite if one of its parts is not, or if a sum reaches 2^126. If the residual is not empty, adds
// N * (mean - what the records decode to), computed as sum - N * decoded, to that of every finite
// block. Returns whether all blocks are finite. `records` may be one of the parts, but then
// roll_back_average() cannot be called.
bool average_quantised(QuantFormat format, std::span<const std::uint8_t* const> parts,
                       std::size_t elements, std::span<float> residual,
                       std::span<std::uint8_t> records);

// Takes back what average_quantised() added to the residual, up to the rounding of additions. The
// arguments are those of that call, with the records that it wrote.
void roll_back_average(QuantFormat format, std::span<const std::uint8_t* const> parts,
                       std::span<const std::uint8_t> records, std::span<float> residual);

// result = factor * the sum of all decoded parts, added up in their order from +0.
void sum_quantised(QuantFormat format, std::span<const std::uint8_t* const> parts, float factor,
                   std::span<float> result);

// The same for one part and the factor 1.
void dequantise(QuantFormat format, std::span<const std::uint8_t> records, std::span<float> result);

}  // namespace gradwire::kernels
