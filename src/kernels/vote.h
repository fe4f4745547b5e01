#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Majority vote over signs. As in sign.h, element i is bit i % 8 of byte i / 8, and 1 stands for
// every x >= 0, -0 included. Bytes are independent, so the work may be split at any multiple of 8
// elements.
namespace gradwire::kernels {

// Writes the signs of the gradient into `bits` (sign_bytes, unused bits 0). Returns false if the
// gradient holds an inf or NaN; then the bits are meaningless.
bool pack_signs(std::span<const float> gradient, std::span<std::uint8_t> bits);

// Writes the majority of the voters' bits. A tie counts as 1. `voters` lists the bit arrays of the
// workers that vote on this range, each as long as `outcome`. Without any voter every bit is a tie.
void majority(std::span<const std::uint8_t* const> voters, std::span<std::uint8_t> outcome);

// result = scale * sign.
void expand_signs(std::span<const std::uint8_t> bits, float scale, std::span<float> result);

}  // namespace gradwire::kernels
