#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Majority vote over signs. Bits as in sign.h: element i is bit i % 8 of byte i / 8, 1 for +1,
// which stands for every x >= 0, -0 included. Any byte is independent of all others, so work may be
// split at any multiple of 8 elements.
namespace gradwire::kernels {

// Writes the signs of the gradient into `bits` (sign_bytes, unused bits 0). False if the gradient
// holds an inf or NaN; the bits are then of no use.
bool pack_signs(std::span<const float> gradient, std::span<std::uint8_t> bits);

// Writes the majority of the voters' bits; a tie counts as 1. `voters` lists the bit arrays of
// those who vote on this range, each as long as `outcome`: whoever abstains is left out. With no
// voter at all every bit is a tie.
void majority(std::span<const std::uint8_t* const> voters, std::span<std::uint8_t> outcome);

// result = scale * sign.
void expand_signs(std::span<const std::uint8_t> bits, float scale, std::span<float> result);

}  // namespace gradwire::kernels
