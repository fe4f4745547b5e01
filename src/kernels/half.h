#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Conversions between fp32 and the two 16-bit formats, every bit the same on every SIMD target.
// Elements are independent, so work may be split anywhere.
namespace gradwire::kernels {

enum class HalfFormat { kBfloat16, kFloat16 };

// Rounds to nearest, ties to even. Too large becomes inf; NaN stays NaN with its sign and the
// leading bits of its payload, and becomes quiet.
void narrow(HalfFormat format, std::span<const float> values, std::span<std::uint16_t> halves);

// Exact; NaN as above.
void widen(HalfFormat format, std::span<const std::uint16_t> halves, std::span<float> values);

// sum = factor * the sum of all parts, added up in fp32 in their order and rounded once at the end.
// Each part is as long as `sum`. `sum` may be one of the parts.
void sum_halves(HalfFormat format, std::span<const std::uint16_t* const> parts, float factor,
                std::span<std::uint16_t> sum);

}  // namespace gradwire::kernels
