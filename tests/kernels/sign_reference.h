#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sign.h"

// What kernels/sign.h specifies, element by element.
namespace gradwire::kernels::reference {

inline float sign(float value) { return value >= 0 ? 1.0F : -1.0F; }

inline float settled(float residual, float pending) { return residual - pending * sign(residual); }

struct EncodedSigns {
  std::vector<float> residual;
  std::vector<std::uint8_t> bits;
  double sum = 0;
};

inline EncodedSigns encode_signs(std::span<const float> gradient, std::span<const float> residual,
                                 float pending) {
  EncodedSigns out{{}, std::vector<std::uint8_t>(sign_bytes(gradient.size())), 0};
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float total = gradient[i] + settled(residual[i], pending);
    out.residual.push_back(total);
    if (total >= 0) out.bits[i / 8] |= static_cast<std::uint8_t>(1U << (i % 8));
    out.sum += std::abs(static_cast<double>(total));
  }
  return out;
}

inline bool bit(const std::uint8_t* bits, std::size_t i) { return (bits[i / 8] >> (i % 8)) & 1; }

inline std::vector<float> decode_signs(std::span<const SignPayload> payloads, float factor,
                                       std::size_t size) {
  std::vector<float> result(size);
  for (std::size_t i = 0; i < size; ++i) {
    float sum = 0;
    for (const SignPayload& payload : payloads) {
      sum += bit(payload.bits, i) ? payload.scale : -payload.scale;
    }
    result[i] = sum * factor;
  }
  return result;
}

}  // namespace gradwire::kernels::reference
