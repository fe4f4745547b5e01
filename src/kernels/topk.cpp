#include "kernels/topk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/magnitude_cut.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/topk.cpp"
#include <hwy/foreach_target.h>
// The line above has to come first: it includes this file, and the next, once per target.
#include "kernels/streaming_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {
namespace {

// Appends element i of `step` for every bit i of `reached`.
HWY_INLINE void append(std::uint32_t reached, const float* step, std::uint32_t first,
                       Candidates& candidates) {
  const auto append_lowest = [&](std::size_t slot) HWY_ATTR {
    const unsigned lane = static_cast<unsigned>(std::countr_zero(reached)) % kStep;
    candidates.indices[slot] = first + lane;
    candidates.magnitudes[slot] = magnitude_bits(step[lane]);
  };
  if (candidates.count + kStep <= candidates.indices.size()) {
    // Most steps reach the floor once or not at all, and a branch predictor cannot learn which.
    append_lowest(candidates.count);
    candidates.count += reached != 0;
    for (reached &= reached - 1; reached != 0; reached &= reached - 1) {
      append_lowest(candidates.count++);
    }
    return;
  }
  for (; reached != 0 && candidates.count < candidates.indices.size(); reached &= reached - 1) {
    append_lowest(candidates.count++);
  }
  candidates.count += static_cast<std::size_t>(std::popcount(reached));
}

// Adds one block and gathers its candidates. Returns false if some G is inf or NaN. `before`
// receives the old residual.
bool accumulate_block(const float* HWY_RESTRICT gradient, float* HWY_RESTRICT residual,
                      std::size_t count, std::uint32_t first, float floor, Candidates& candidates,
                      float* HWY_RESTRICT before) {
  const Floats d;
  const FloatVector floor_vector = hn::Set(d, floor);
  // x * 0 is NaN for inf and NaN, and a sum never loses a NaN.
  FloatVector taint[kStepVectors];
  for (FloatVector& vector : taint) vector = hn::Zero(d);

  std::uint32_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    prefetch_page_ahead(gradient + i);
    prefetch_page_ahead(residual + i);
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
    append(step_bits(reaches), residual + i, first + i, candidates);
  }

  float lanes[kStep];
  for (std::size_t v = 0; v < kStepVectors; ++v) hn::StoreU(taint[v], d, lanes + v * kVectorLanes);
  std::uint32_t reached = 0;
  for (std::size_t k = 0; k < count - i; ++k) {
    before[i + k] = residual[i + k];
    residual[i + k] += gradient[i + k];
    reached |= std::uint32_t{std::abs(residual[i + k]) >= floor} << k;
    lanes[k] += residual[i + k] * 0.0F;
  }
  if (reached != 0) append(reached, residual + i, first + i, candidates);
  return std::all_of(lanes, lanes + kStep, [](float lane) { return lane == 0; });
}

std::size_t accumulate_range(const float* gradient, float* residual, std::size_t size,
                             std::uint32_t first, float floor, Candidates& candidates) {
  // The old block is kept, to be put back if needed. The copy stays in the cache.
  alignas(64) float before[kTopkBlock];
  Candidates gathered = candidates;  // a local copy, so that the count can stay in a register
  std::size_t start = 0;
  for (; start < size; start += kTopkBlock) {
    const std::size_t count = std::min(kTopkBlock, size - start);
    const std::size_t gathered_before = gathered.count;
    if (!accumulate_block(gradient + start, residual + start, count,
                          first + static_cast<std::uint32_t>(start), floor, gathered, before)) {
      std::copy_n(before, count, residual + start);
      gathered.count = gathered_before;
      break;
    }
  }
  candidates = gathered;
  return std::min(start, size);
}

// Appends every element with |value| >= floor.
void gather_block(const float* values, std::size_t count, std::uint32_t first, float floor,
                  Candidates& candidates) {
  const Floats d;
  Candidates gathered = candidates;
  std::uint32_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    hn::Mask<Floats> reaches[kStepVectors];
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      const FloatVector value = hn::LoadU(d, values + i + v * kVectorLanes);
      reaches[v] = hn::Ge(hn::Abs(value), hn::Set(d, floor));
    }
    append(step_bits(reaches), values + i, first + i, gathered);
  }
  std::uint32_t reached = 0;
  for (std::size_t k = 0; k < count - i; ++k) {
    reached |= std::uint32_t{std::abs(values[i + k]) >= floor} << k;
  }
  if (reached != 0) append(reached, values + i, first + i, gathered);
  candidates = gathered;
}

}  // namespace
}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {

HWY_EXPORT(accumulate_range);
HWY_EXPORT(gather_block);

namespace {

constexpr std::size_t kFewElements = 32768;
constexpr std::size_t kElementsPerCandidate = 50;

// The rank in the sample that corresponds to rank k of the whole. It is moved down by three
// standard deviations and two, so that the floor is seldom above the cut.
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

// Selected elements are far apart: each is in another cache line, often on another page.
void prefetch_ahead(std::span<const float> residual, std::span<const std::uint32_t> indices,
                    std::size_t s) {
  constexpr std::size_t kAhead = 32;
  if (s + kAhead < indices.size()) __builtin_prefetch(&residual[indices[s + kAhead]], 1);
}

template <class Visit>
void for_each_reaching(std::span<const float> values, std::uint32_t floor, Visit&& visit) {
  if (floor == 0) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      visit(magnitude_bits(values[i]), static_cast<std::uint32_t>(i));
    }
    return;
  }
  std::uint32_t indices[kTopkBlock];
  std::uint32_t magnitudes[kTopkBlock];
  for (std::size_t start = 0; start < values.size(); start += kTopkBlock) {
    Candidates block{indices, magnitudes};
    HWY_DYNAMIC_DISPATCH(gather_block)
    (values.data() + start, std::min(kTopkBlock, values.size() - start),
     static_cast<std::uint32_t>(start), std::bit_cast<float>(floor), block);
    for (std::size_t c = 0; c < block.count; ++c) visit(magnitudes[c], indices[c]);
  }
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
  // Takes one element of each stratum, at a random position, so that no pattern of the matrix
  // matters.
  std::uint32_t random = 1;
  for (std::size_t s = 0; s < samples; ++s) {
    const std::size_t begin = s * size / samples;
    const std::size_t width = (s + 1) * size / samples - begin;
    random = random * 1664525 + 1013904223;
    const std::size_t at = begin + ((random >> 8) * width >> 24);
    sample[s] = magnitude_bits(gradient[at] + residual[at]);
  }
  const auto for_each_sample = [&](std::uint32_t, auto&& visit) {
    for (std::size_t s = 0; s < samples; ++s) visit(sample[s], 0U);
  };
  const MagnitudeCut cut = find_cut(for_each_sample, rank_in_sample(size, k, samples));
  // Zeros are never candidates, even if most elements are zero.
  return std::max(std::bit_cast<float>(cut.magnitude), std::numeric_limits<float>::min());
}

std::size_t accumulate(std::span<const float> gradient, std::span<float> residual,
                       std::uint32_t first, float floor, Candidates& candidates) {
  return HWY_DYNAMIC_DISPATCH(accumulate_range)(gradient.data(), residual.data(), gradient.size(),
                                                first, floor, candidates);
}

bool select_largest(std::span<const Candidates> ranges, std::span<const float> residual,
                    std::span<std::uint32_t> selected) {
  const auto for_each_candidate = [&](std::uint32_t, auto&& visit) {
    for (const Candidates& range : ranges) {
      for (std::size_t c = 0; c < range.count; ++c) visit(range.magnitudes[c], range.indices[c]);
    }
  };
  const auto for_each_element = [&](std::uint32_t floor, auto&& visit) {
    for_each_reaching(residual, floor, visit);
  };
  const bool sufficed = candidates_suffice(ranges, selected.size());
  sufficed ? select_by_cut(for_each_candidate, selected)
           : select_by_cut(for_each_element, selected);
  return sufficed;
}

void take(std::span<float> residual, std::span<const std::uint32_t> indices,
          std::span<float> values) {
  for (std::size_t s = 0; s < indices.size(); ++s) {
    prefetch_ahead(residual, indices, s);
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

void add_scaled(std::span<float> target, std::span<const std::uint32_t> indices,
                std::span<const float> values, float factor) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    target[indices[i]] += factor * values[i];
  }
}

}  // namespace gradwire::kernels
#endif
