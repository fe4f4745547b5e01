#include "kernels/sign.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sign.cpp"
#include <hwy/foreach_target.h>
// The line above has to come first: it includes this file, and the next, once per target.
#include "kernels/streaming_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {
namespace {

HWY_INLINE FloatVector settled(FloatVector residual, FloatVector pending) {
  const auto negative = hn::Lt(residual, hn::Zero(Floats()));
  return hn::Sub(residual, hn::IfThenElse(negative, hn::Neg(pending), pending));
}

HWY_INLINE float settled(float residual, float pending) {
  return residual - (residual < 0 ? -pending : pending);
}

// Encodes one block and returns the sum of |G|, which is inf or NaN if G or a partial sum
// overflowed. `before` receives the old residual.
double encode_block(const float* HWY_RESTRICT gradient, float* HWY_RESTRICT residual,
                    std::size_t count, float pending, std::uint8_t* HWY_RESTRICT bits,
                    float* HWY_RESTRICT before) {
  const Floats d;
  const FloatVector pending_vector = hn::Set(d, pending);
  FloatVector sums[kStepVectors];
  for (FloatVector& sum : sums) sum = hn::Zero(d);

  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    prefetch_page_ahead(gradient + i);
    prefetch_page_ahead(residual + i);
    hn::Mask<Floats> positive[kStepVectors];
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      const std::size_t at = i + v * kVectorLanes;
      const FloatVector old = hn::LoadU(d, residual + at);
      const FloatVector total = hn::Add(hn::LoadU(d, gradient + at), settled(old, pending_vector));
      hn::StoreU(old, d, before + at);
      hn::StoreU(total, d, residual + at);
      positive[v] = hn::Ge(total, hn::Zero(d));
      sums[v] = hn::Add(sums[v], hn::Abs(total));
    }
    store_step_bits(positive, bits + i / 8);
  }

  float lanes[kStep];
  for (std::size_t v = 0; v < kStepVectors; ++v) hn::StoreU(sums[v], d, lanes + v * kVectorLanes);
  for (std::size_t k = i; k < count; ++k) {
    before[k] = residual[k];
    residual[k] = gradient[k] + settled(residual[k], pending);
    if (k % 8 == 0) bits[k / 8] = 0;
    bits[k / 8] |= static_cast<std::uint8_t>(residual[k] >= 0) << (k % 8);
    lanes[k - i] += std::abs(residual[k]);
  }

  double sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

// For the rare block whose finite |G| are too large to be added up in fp32.
double sum_in_double(const float* values, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::abs(static_cast<double>(values[i]));
  return sum;
}

std::size_t encode(const float* gradient, float* residual, std::size_t size, float pending,
                   std::uint8_t* bits, double* block_sums) {
  // Checking first would read each block twice. So the old block is kept, to be put back if needed;
  // the copy stays in the L1 cache.
  alignas(64) float before[kSignBlock];
  for (std::size_t start = 0; start < size; start += kSignBlock) {
    const std::size_t count = std::min(kSignBlock, size - start);
    float* const block = residual + start;
    double sum = encode_block(gradient + start, block, count, pending, bits + start / 8, before);
    if (!std::isfinite(sum)) sum = sum_in_double(block, count);
    if (!std::isfinite(sum)) {
      std::copy_n(before, count, block);
      return start;
    }
    block_sums[start / kSignBlock] = sum;
  }
  return size;
}

void settle(float* residual, std::size_t count, float pending) {
  const Floats d;
  const FloatVector pending_vector = hn::Set(d, pending);
  std::size_t i = 0;
  for (; i + kVectorLanes <= count; i += kVectorLanes) {
    hn::StoreU(settled(hn::LoadU(d, residual + i), pending_vector), d, residual + i);
  }
  for (; i < count; ++i) residual[i] = settled(residual[i], pending);
}

// Adds kPayloads contributions to `result` (or to nothing, if `first`) and multiplies by `factor`.
// The sum starts at +0, so a payload of scale 0 never changes a bit of it.
template <std::size_t kPayloads>
void decode_group(const SignPayload* payloads, std::size_t start, std::size_t count, bool first,
                  float factor, float* HWY_RESTRICT result) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  alignas(64) std::uint32_t bit_table[kStep];
  for (std::size_t lane = 0; lane < kStep; ++lane) bit_table[lane] = std::uint32_t{1} << lane;

  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    hn::Vec<hn::RebindToUnsigned<Floats>> words[kPayloads];
    for (std::size_t p = 0; p < kPayloads; ++p) {
      std::uint32_t word;
      std::memcpy(&word, payloads[p].bits + (start + i) / 8, sizeof(word));
      words[p] = hn::Set(du, word);
    }
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      float* const out = result + i + v * kVectorLanes;
      const auto bit = hn::Load(du, bit_table + v * kVectorLanes);
      FloatVector sum = first ? hn::Zero(d) : hn::LoadU(d, out);
#pragma GCC unroll 8
      for (std::size_t p = 0; p < kPayloads; ++p) {
        const FloatVector scale = hn::Set(d, payloads[p].scale);
        const auto positive = hn::RebindMask(d, hn::TestBit(words[p], bit));
        sum = hn::Add(sum, hn::IfThenElse(positive, scale, hn::Neg(scale)));
      }
      hn::StoreU(hn::Mul(sum, hn::Set(d, factor)), d, out);
    }
  }
  for (; i < count; ++i) {
    float sum = first ? 0.0F : result[i];
    for (std::size_t p = 0; p < kPayloads; ++p) {
      const bool positive = (payloads[p].bits[(start + i) / 8] >> (i % 8)) & 1;
      sum += positive ? payloads[p].scale : -payloads[p].scale;
    }
    result[i] = sum * factor;
  }
}

// All payloads are added to a chunk while it is in the L1 cache, so the result is written to memory
// once.
void decode(const SignPayload* payloads, std::size_t payload_count, float factor, float* result,
            std::size_t count) {
  constexpr std::size_t kChunk = 2048;
  for (std::size_t start = 0; start < count; start += kChunk) {
    const std::size_t size = std::min(kChunk, count - start);
    for (std::size_t p = 0; p < payload_count;) {
      const std::size_t left = payload_count - p;
      const std::size_t group = left >= 4 ? 4 : left >= 2 ? 2 : 1;
      const auto add = group == 4   ? decode_group<4>
                       : group == 2 ? decode_group<2>
                                    : decode_group<1>;
      const bool last = p + group == payload_count;
      add(payloads + p, start, size, p == 0, last ? factor : 1.0F, result + start);
      p += group;
    }
  }
}

}  // namespace
}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {

HWY_EXPORT(encode);
HWY_EXPORT(settle);
HWY_EXPORT(decode);

std::size_t encode_signs(std::span<const float> gradient, std::span<float> residual, float pending,
                         std::span<std::uint8_t> bits, std::span<double> block_sums) {
  return HWY_DYNAMIC_DISPATCH(encode)(gradient.data(), residual.data(), gradient.size(), pending,
                                      bits.data(), block_sums.data());
}

double sum_blocks(std::span<const double> block_sums) {
  double sum = 0;
  for (double block : block_sums) sum += block;
  return sum;
}

void settle_residual(std::span<float> residual, float pending) {
  HWY_DYNAMIC_DISPATCH(settle)(residual.data(), residual.size(), pending);
}

void decode_signs(std::span<const SignPayload> payloads, float factor, std::span<float> result) {
  if (payloads.empty()) std::fill(result.begin(), result.end(), 0.0F);
  HWY_DYNAMIC_DISPATCH(decode)
  (payloads.data(), payloads.size(), factor, result.data(), result.size());
}

}  // namespace gradwire::kernels
#endif
