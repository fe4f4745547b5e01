#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Sign compression with error feedback, in one pass over memory.
//
// The new residual G - scale * sign(G) needs the scale, mean |G|, which is known only after a pass
// over all of G. So the pass stores G itself, and the caller keeps the scale as `pending`. The true
// residual is  residual - pending * sign(residual); the next pass that reads it settles it.
// sign(x) is +1 where x >= 0, -0 included, and -1 elsewhere.
//
// Element i is bit i % 8 of byte i / 8, and 1 stands for +1. Unused bits of the last byte are 0.
//
// The work may be split between threads at multiples of kSignBlock elements. Every block is
// computed in the same way wherever the splits are, and sum_blocks adds block sums in the order of
// the blocks.
namespace gradwire::kernels {

inline constexpr std::size_t kSignBlock = 4096;

constexpr std::size_t sign_bytes(std::size_t elements) { return (elements + 7) / 8; }
constexpr std::size_t sign_blocks(std::size_t elements) {
  return (elements + kSignBlock - 1) / kSignBlock;
}

// G = gradient + settled residual: stores G in `residual`, its signs in `bits` (sign_bytes) and the
// sum of |G| over each block in `block_sums` (sign_blocks). Returns the number of elements encoded:
// less than all if a block holds, or comes to hold, an inf or NaN. That block and those behind it
// keep their residual and their old pending scale untouched. To roll the pass back, call roll_back
// (roll_back.h) on the elements encoded and settle_residual on the others. Nothing is pending then.
std::size_t encode_signs(std::span<const float> gradient, std::span<float> residual, float pending,
                         std::span<std::uint8_t> bits, std::span<double> block_sums);

// The sum of |G| over the whole parameter.
double sum_blocks(std::span<const double> block_sums);

// Subtracts the pending scale, so that nothing is pending.
void settle_residual(std::span<float> residual, float pending);

// One worker's contribution to the range being decoded. Its scale is 0 if it abstains.
struct SignPayload {
  const std::uint8_t* bits;
  float scale;
};

// result = factor * sum of scale * sign, added up in the order of the payloads.
void decode_signs(std::span<const SignPayload> payloads, float factor, std::span<float> result);

}  // namespace gradwire::kernels
