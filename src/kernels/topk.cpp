#include "kernels/topk.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/magnitude_cut.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/topk.cpp"
#include <hwy/foreach_target.h>
// The line above has to come first: it includes this file, and the next, once per target.
#include "kernels/mask_bits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {
namespace {

// Adds one block and sets bit i of `reached` where |G_i| >= floor. False if some G is inf or NaN.
// `before` receives the residual as it was.
bool accumulate_block(const float* HWY_RESTRICT gradient, float* HWY_RESTRICT residual,
                      std::size_t count, float floor, std::uint8_t* HWY_RESTRICT reached,
                      float* HWY_RESTRICT before) {
  const Floats d;
  const FloatVector floor_vector = hn::Set(d, floor);
  // x * 0 is NaN for inf and NaN, and a sum never loses a NaN.
  FloatVector taint[kStepVectors];
  for (FloatVector& vector : taint) vector = hn::Zero(d);

  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    hn::Mask<Floats> reaches[kStepVectors];
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      const std::size_t at = i + v * kVectorLanes;
      const FloatVector old = hn::LoadU(d, residual + at);
      const FloatVector total = hn::Add(hn::LoadU(d, gradient + at), old);
      hn::StoreU(old, d, before + at);
      hn::StoreU(total, d, residual + at);
      reaches[v] = hn::Ge(hn::Abs(total), floor_vector);
      taint[v] = hn::Add(taint[v], hn::Mul(total, hn::Zero(d)));
    }
    store_step_bits(reaches, reached + i / 8);
  }

  float lanes[kStep];
  for (std::size_t v = 0; v < kStepVectors; ++v) hn::StoreU(taint[v], d, lanes + v * kVectorLanes);
  for (std::size_t k = i; k < count; ++k) {
    before[k] = residual[k];
    residual[k] += gradient[k];
    reached[k / 8] |= static_cast<std::uint8_t>(std::abs(residual[k]) >= floor) << (k % 8);
    lanes[k - i] += residual[k] * 0.0F;
  }
  return std::all_of(lanes, lanes + kStep, [](float lane) { return lane == 0; });
}

void append(const float* block, const std::uint8_t* reached, std::uint32_t first,
            Candidates& candidates) {
  for (std::size_t base = 0; base < kTopkBlock; base += 64) {
    std::uint64_t word;
    std::memcpy(&word, reached + base / 8, sizeof(word));
    for (; word != 0; word &= word - 1) {
      const std::size_t at = base + static_cast<std::size_t>(std::countr_zero(word));
      if (candidates.count < candidates.indices.size()) {
        candidates.indices[candidates.count] = first + static_cast<std::uint32_t>(at);
        candidates.magnitudes[candidates.count] = magnitude_bits(block[at]);
      }
      ++candidates.count;
    }
  }
}

std::size_t accumulate_range(const float* gradient, float* residual, std::size_t size,
                             std::uint32_t first, float floor, Candidates& candidates) {
  // A copy of the old block, to put back if need be, stays in the L1 cache.
  alignas(64) float before[kTopkBlock];
  alignas(64) std::uint8_t reached[kTopkBlock / 8];
  for (std::size_t start = 0; start < size; start += kTopkBlock) {
    const std::size_t count = std::min(kTopkBlock, size - start);
    float* const block = residual + start;
    if (count < kTopkBlock) std::fill(std::begin(reached), std::end(reached), std::uint8_t{0});
    if (!accumulate_block(gradient + start, block, count, floor, reached, before)) {
      std::copy_n(before, count, block);
      return start;
    }
    append(block, reached, first + static_cast<std::uint32_t>(start), candidates);
  }
  return size;
}

}  // namespace
}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {

HWY_EXPORT(accumulate_range);

namespace {

constexpr std::size_t kFewElements = 32768;
constexpr std::size_t kElementsPerCandidate = 50;

// The sample rank that stands for rank k of the whole, moved down by three standard deviations and
// two so that a floor above the cut is rare.
std::size_t rank_in_sample(std::size_t size, std::size_t k, std::size_t samples) {
  const double expected =
      static_cast<double>(samples) * static_cast<double>(k) / static_cast<double>(size);
  const double rank = expected + 3 * std::sqrt(expected) + 2;
  return std::min(samples, static_cast<std::size_t>(rank));
}

bool candidates_suffice(std::span<const Candidates> ranges, std::size_t k) {
  std::size_t total = 0;
  for (const Candidates& range : ranges) {
    if (range.count > range.indices.size()) return false;
    total += range.count;
  }
  return total >= k;
}

}  // namespace

std::size_t candidate_capacity(std::size_t size, std::size_t k) {
  const std::size_t capacity = size / kElementsPerCandidate;
  const bool worthwhile = size >= kFewElements && k + k / 2 <= capacity;
  return worthwhile ? capacity : 0;
}

float estimate_floor(std::span<const float> gradient, std::span<const float> residual,
                     std::size_t k, std::span<std::uint32_t> sample) {
  const std::size_t size = gradient.size();
  const std::size_t samples = std::min(sample.size(), size / 4);
  // One element of each stratum, at a position that follows no pattern a matrix might have.
  std::uint32_t random = 1;
  for (std::size_t s = 0; s < samples; ++s) {
    const std::size_t begin = s * size / samples;
    const std::size_t width = (s + 1) * size / samples - begin;
    random = random * 1664525 + 1013904223;
    const std::size_t at = begin + ((random >> 8) * width >> 24);
    sample[s] = magnitude_bits(gradient[at] + residual[at]);
  }
  const auto for_each_sample = [&](auto&& visit) {
    for (std::size_t s = 0; s < samples; ++s) visit(sample[s]);
  };
  const MagnitudeCut cut = find_cut(for_each_sample, rank_in_sample(size, k, samples));
  return std::bit_cast<float>(cut.magnitude);
}

std::size_t accumulate(std::span<const float> gradient, std::span<float> residual,
                       std::uint32_t first, float floor, Candidates& candidates) {
  return HWY_DYNAMIC_DISPATCH(accumulate_range)(gradient.data(), residual.data(), gradient.size(),
                                                first, floor, candidates);
}

bool select_largest(std::span<const Candidates> ranges, std::span<const float> residual,
                    std::span<std::uint32_t> selected) {
  const auto for_each_candidate = [&](auto&& visit) {
    for (const Candidates& range : ranges) {
      for (std::size_t c = 0; c < range.count; ++c) visit(range.magnitudes[c], range.indices[c]);
    }
  };
  const auto for_each_element = [&](auto&& visit) {
    for (std::size_t i = 0; i < residual.size(); ++i) {
      visit(magnitude_bits(residual[i]), static_cast<std::uint32_t>(i));
    }
  };
  const bool sufficed = candidates_suffice(ranges, selected.size());
  sufficed ? select_by_cut(for_each_candidate, selected)
           : select_by_cut(for_each_element, selected);
  return sufficed;
}

void take(std::span<float> residual, std::span<const std::uint32_t> indices,
          std::span<float> values) {
  for (std::size_t s = 0; s < indices.size(); ++s) {
    values[s] = residual[indices[s]];
    residual[indices[s]] = 0;
  }
}

void take_rounded(HalfFormat format, std::span<float> residual,
                  std::span<const std::uint32_t> indices, std::span<std::uint16_t> values) {
  constexpr std::size_t kBatch = 256;
  const float largest = format == HalfFormat::kBfloat16 ? 0x1.FEp127F : 65504.0F;
  float batch[kBatch];
  for (std::size_t start = 0; start < indices.size(); start += kBatch) {
    const std::size_t count = std::min(kBatch, indices.size() - start);
    const auto at = indices.subspan(start, count);
    for (std::size_t s = 0; s < count; ++s) {
      batch[s] = std::clamp(residual[at[s]], -largest, largest);
    }
    narrow(format, {batch, count}, values.subspan(start, count));
    widen(format, values.subspan(start, count), {batch, count});
    for (std::size_t s = 0; s < count; ++s) residual[at[s]] -= batch[s];
  }
}

}  // namespace gradwire::kernels
#endif
