#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Conversions between fp32 and the two 16-bit formats, with the same bits on every SIMD target.
// Elements are independent, so the work may be split anywhere.
namespace gradwire::kernels {

enum class HalfFormat { kBfloat16, kFloat16 };

// Rounds to nearest, ties to even. A number that is too large becomes inf. A NaN becomes quiet and
// keeps its sign and the leading bits of its payload.
void narrow(HalfFormat format, std::span<const float> values, std::span<std::uint16_t> halves);

// The result is exact. NaN is treated as above.
void widen(HalfFormat format, std::span<const std::uint16_t> halves, std::span<float> values);

// sum = factor * the sum of all parts, added up in fp32 in their order, and rounded once at the
// end. Each part is as long as `sum`. `sum` may be one of the parts.
void sum_halves(HalfFormat format, std::span<const std::uint16_t* const> parts, float factor,
                std::span<std::uint16_t> sum);

}  // namespace gradwire::kernels
