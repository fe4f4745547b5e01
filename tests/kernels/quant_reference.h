#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "half_reference.h"
#include "kernels/quant.h"

// What kernels/quant.h specifies, element by element.
namespace gradwire::kernels::reference {

inline float bfloat16_value(std::uint16_t half) {
  return static_cast<float>(value_of(HalfFormat::kBfloat16, half));
}

inline std::uint16_t nearest_bfloat16(float value) { return narrow(HalfFormat::kBfloat16, value); }

inline std::uint16_t bfloat16_not_below(float value) {
  const std::uint16_t nearest = nearest_bfloat16(value);
  return bfloat16_value(nearest) < value ? nearest + 1 : nearest;
}

// Element i is added in lane i % 32. Then the upper half of the lanes is added to the lower half
// until one is left.
inline float sum_of_magnitudes(std::span<const float> values) {
  std::vector<float> lanes(32);
  for (std::size_t i = 0; i < values.size(); ++i) lanes[i % 32] += std::abs(values[i]);
  for (std::size_t half = 16; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

inline float mean_of_magnitudes(std::span<const float> values) {
  return sum_of_magnitudes(values) / static_cast<float>(values.size());
}

inline std::uint16_t scale_of(int bits, std::span<const float> values) {
  if (bits <= 2) return nearest_bfloat16(mean_of_magnitudes(values));
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::abs(value));
  if (largest == 0) return 0;
  const float levels = bits == 8 ? 127 : 7;
  return bfloat16_not_below(std::max(largest / levels, std::numeric_limits<float>::min()));
}

inline bool is_finite(int bits, std::span<const float> values, float too_large) {
  for (float value : values) {
    if (!(std::abs(value) < too_large)) return false;
  }
  return bits > 2 || std::isfinite(sum_of_magnitudes(values));
}

// The code of x, as a number whose low bits are sent.
inline int code_of(int bits, float x, float scale) {
  if (scale == 0) return 0;
  if (bits >= 4) return static_cast<int>(std::nearbyint(x * (1 / scale)));
  if (bits == 1) return x < 0 ? 0 : 1;
  const int magnitude = std::abs(x) >= scale ? 1 : 0;
  return x < 0 ? ~magnitude : magnitude;
}

inline float level_of(int bits, unsigned code) {
  const bool negative = code >= 1U << (bits - 1);
  const int number = static_cast<int>(code) - (negative ? 1 << bits : 0);
  if (bits == 1) return number == 0 ? -1 : 1;
  return static_cast<float>(number) + (bits == 2 ? 0.5F : 0.0F);
}

inline float decoded(QuantFormat format, const std::uint8_t* records, std::size_t i) {
  const std::uint8_t* const record = records + i / format.block * format.record_bytes();
  std::uint16_t scale;
  std::memcpy(&scale, record, sizeof(scale));
  const std::size_t bit = i % format.block * static_cast<std::size_t>(format.bits);
  const unsigned code = record[2 + bit / 8] >> bit % 8 & ((1U << format.bits) - 1);
  // Adding 0 makes -0 a +0.
  return level_of(format.bits, code) * bfloat16_value(scale) + 0.0F;
}

// Writes the records of `values` and returns which blocks are finite.
inline std::vector<bool> write_records(QuantFormat format, std::span<const float> values,
                                       float too_large, std::vector<std::uint8_t>& records) {
  records.assign(format.bytes(values.size()), 0);
  std::vector<bool> finite;
  for (std::size_t start = 0; start < values.size(); start += format.block) {
    const auto block = values.subspan(start, std::min(format.block, values.size() - start));
    std::uint8_t* const record = records.data() + start / format.block * format.record_bytes();
    finite.push_back(is_finite(format.bits, block, too_large));
    const std::uint16_t scale = finite.back() ? scale_of(format.bits, block) : 0x7FC0;
    std::memcpy(record, &scale, sizeof(scale));
    if (!finite.back()) continue;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const auto code =
          static_cast<unsigned>(code_of(format.bits, block[i], bfloat16_value(scale)));
      const std::size_t bit = i * static_cast<std::size_t>(format.bits);
      record[2 + bit / 8] |= (code & ((1U << format.bits) - 1)) << bit % 8;
    }
  }
  return finite;
}

struct Quantised {
  std::vector<std::uint8_t> records;
  std::vector<float> residual;
  std::vector<bool> finite;  // of each block

  bool all_finite() const { return std::ranges::find(finite, false) == finite.end(); }
};

inline Quantised quantise(QuantFormat format, std::span<const float> gradient,
                          std::span<const float> residual) {
  std::vector<float> total(gradient.begin(), gradient.end());
  for (std::size_t i = 0; i < residual.size(); ++i) total[i] += residual[i];
  Quantised out{{}, {residual.begin(), residual.end()}, {}};
  out.finite = write_records(format, total, 0x1p126F, out.records);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    if (!out.finite[i / format.block]) continue;
    out.residual[i] = total[i] - decoded(format, out.records.data(), i);
  }
  return out;
}

inline std::vector<float> sum_quantised(QuantFormat format,
                                        std::span<const std::uint8_t* const> parts, float factor,
                                        std::size_t elements) {
  std::vector<float> sums(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    for (const std::uint8_t* part : parts) sums[i] += decoded(format, part, i);
    sums[i] *= factor;
  }
  return sums;
}

inline Quantised average_quantised(QuantFormat format, std::span<const std::uint8_t* const> parts,
                                   std::size_t elements, std::span<const float> residual) {
  const auto workers = static_cast<float>(parts.size());
  const auto sums = sum_quantised(format, parts, 1, elements);
  const float factor = 1 / workers;
  std::vector<float> means;
  for (float sum : sums) means.push_back(sum * factor);
  Quantised out{{}, {residual.begin(), residual.end()}, {}};
  out.finite = write_records(format, means, 0x1p126F * factor, out.records);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    if (!out.finite[i / format.block]) continue;
    out.residual[i] += sums[i] - workers * decoded(format, out.records.data(), i);
  }
  return out;
}

}  // namespace gradwire::kernels::reference
