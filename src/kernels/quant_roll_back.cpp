// What happens to records that are not finite. These are rare, so there is nothing to vectorise.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/quant.h"

namespace gradwire::kernels {
namespace {

constexpr std::uint16_t kNotFiniteScale = 0x7FC0;

bool is_finite(const std::uint8_t* record) {
  std::uint16_t scale;
  std::memcpy(&scale, record, sizeof(scale));
  return (scale & 0x7F80) != 0x7F80;
}

// Calls body(first element, count, first byte) for each block.
template <class Body>
void over_blocks(QuantFormat format, std::size_t elements, const Body& body) {
  for (std::size_t block = 0; block < format.blocks(elements); ++block) {
    const std::size_t start = block * format.block;
    body(start, std::min(format.block, elements - start), block * format.record_bytes());
  }
}

}  // namespace

bool all_finite(QuantFormat format, std::size_t elements, std::span<const std::uint8_t> records) {
  bool finite = true;
  over_blocks(format, elements, [&](std::size_t, std::size_t, std::size_t at) {
    finite &= is_finite(records.data() + at);
  });
  return finite;
}

void mark_not_finite(QuantFormat format, std::size_t elements, std::span<std::uint8_t> records) {
  std::fill_n(records.begin(), format.bytes(elements), std::uint8_t{0});
  over_blocks(format, elements, [&](std::size_t, std::size_t, std::size_t at) {
    std::memcpy(records.data() + at, &kNotFiniteScale, sizeof(kNotFiniteScale));
  });
}

void roll_back_quantised(QuantFormat format, std::span<const float> gradient,
                         std::span<const std::uint8_t> records, std::span<float> residual) {
  over_blocks(format, gradient.size(), [&](std::size_t start, std::size_t count, std::size_t at) {
    if (!is_finite(records.data() + at)) return;
    float sent[kLargestQuantBlock];
    dequantise(format, records.subspan(at), {sent, count});
    for (std::size_t i = 0; i < count; ++i) {
      float& own = residual[start + i];
      own = (own + sent[i]) - gradient[start + i];
    }
  });
}

void roll_back_average(QuantFormat format, std::span<const std::uint8_t* const> parts,
                       std::span<const std::uint8_t> records, std::span<float> residual) {
  const auto workers = static_cast<float>(parts.size());
  over_blocks(format, residual.size(), [&](std::size_t start, std::size_t count, std::size_t at) {
    if (!is_finite(records.data() + at)) return;
    float decoded[kLargestQuantBlock];
    float sums[kLargestQuantBlock] = {};
    dequantise(format, records.subspan(at), {decoded, count});
    for (const std::uint8_t* part : parts) {
      float contribution[kLargestQuantBlock];
      dequantise(format, {part + at, format.bytes(count)}, {contribution, count});
      for (std::size_t i = 0; i < count; ++i) sums[i] += contribution[i];
    }
    for (std::size_t i = 0; i < count; ++i) residual[start + i] -= sums[i] - workers * decoded[i];
  });
}

}  // namespace gradwire::kernels
