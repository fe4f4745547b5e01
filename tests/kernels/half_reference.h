#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/half.h"

// What kernels/half.h specifies, computed with arithmetic instead of bits.
namespace gradwire::kernels::reference {

struct HalfShape {
  int mantissa_bits;
  int least_exponent;  // of normal numbers
  int bias;
};

inline HalfShape shape_of(HalfFormat format) {
  return format == HalfFormat::kBfloat16 ? HalfShape{7, -126, 127} : HalfShape{10, -14, 15};
}

inline double value_of(HalfFormat format, std::uint16_t half) {
  const HalfShape shape = shape_of(format);
  const int mantissa = half & ((1 << shape.mantissa_bits) - 1);
  const int exponent = (half & 0x7FFF) >> shape.mantissa_bits;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == 2 * shape.bias + 1) return mantissa != 0 ? NAN : sign * INFINITY;
  const int implicit = exponent != 0 ? 1 << shape.mantissa_bits : 0;
  const int power = std::max(exponent, 1) - shape.bias - shape.mantissa_bits;
  return sign * std::ldexp(implicit + mantissa, power);
}

inline std::uint16_t narrow(HalfFormat format, float value) {
  const HalfShape shape = shape_of(format);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = (bits >> 16) & 0x8000;
  const std::uint16_t infinite = (2 * shape.bias + 1) << shape.mantissa_bits;
  if (std::isnan(value)) {
    const std::uint32_t payload = (bits & 0x7FFFFF) >> (23 - shape.mantissa_bits);
    return sign | infinite | 1 << (shape.mantissa_bits - 1) | payload;
  }
  if (std::isinf(value)) return sign | infinite;
  // In units of the last place, nearbyint rounds as specified.
  const int exponent =
      value == 0 ? shape.least_exponent : std::max(std::ilogb(value), shape.least_exponent);
  const double units =
      std::nearbyint(std::ldexp(std::abs(double{value}), shape.mantissa_bits - exponent));
  const int biased = exponent - shape.least_exponent;  // one less than the stored exponent
  const int magnitude = (biased << shape.mantissa_bits) + static_cast<int>(units);
  return sign | static_cast<std::uint16_t>(std::min<int>(magnitude, infinite));
}

}  // namespace gradwire::kernels::reference
