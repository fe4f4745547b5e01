#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Sign compression with error feedback, in one pass over memory.
//
// The new residual G - scale * sign(G) needs the scale, mean |G|, which is known only after a pass
// over all of G. So the pass stores G itself, and the caller keeps the scale beside it as
// `pending`: the residual proper is  residual - pending * sign(residual), settled at the next read.
// sign(x) is +1 where x >= 0, -0 included, and -1 elsewhere.
//
// Bits: element i is bit i % 8 of byte i / 8, 1 for +1; unused bits of the last byte are 0.
//
// Work may be split between threads at multiples of kSignBlock elements: every block is computed
// alike wherever a split falls, and block sums are added in block order by sum_blocks.
namespace gradwire::kernels {

inline constexpr std::size_t kSignBlock = 4096;

constexpr std::size_t sign_bytes(std::size_t elements) { return (elements + 7) / 8; }
constexpr std::size_t sign_blocks(std::size_t elements) {
  return (elements + kSignBlock - 1) / kSignBlock;
}

// G = gradient + settled residual: stores G in `residual`, its signs in `bits` (sign_bytes) and the
// sum of |G| over each block in `block_sums` (sign_blocks). Returns the number of elements encoded:
// less than all if a block holds, or comes to hold, an inf or NaN. That block and those behind it
// keep their residual and their old pending scale untouched. To undo, call take_back (undo.h) on
// the elements encoded and settle_residual on the others; all are then plain (pending 0).
std::size_t encode_signs(std::span<const float> gradient, std::span<float> residual, float pending,
                         std::span<std::uint8_t> bits, std::span<double> block_sums);

// Sum |G| of the whole parameter.
double sum_blocks(std::span<const double> block_sums);

// Turns a residual with a pending scale into a plain one.
void settle_residual(std::span<float> residual, float pending);

// One worker's contribution to the range being decoded; scale 0 if it abstains.
struct SignPayload {
  const std::uint8_t* bits;
  float scale;
};

// result = factor * sum of scale * sign, added up in the order of the payloads.
void decode_signs(std::span<const SignPayload> payloads, float factor, std::span<float> result);

}  // namespace gradwire::kernels
