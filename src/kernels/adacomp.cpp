#include "kernels/adacomp.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <bit>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adacomp.cpp"
#include <hwy/foreach_target.h>
// The line above has to come first: it includes this file once per target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// With at most eight lanes a mask fits into a byte.
using Floats = hn::CappedTag<float, 8>;
using Ints = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;
using IntVector = hn::Vec<Ints>;

constexpr std::int32_t kInfinityBits = 0x7F800000;

template <class Mask>
HWY_INLINE std::uint64_t bits_of(Mask mask) {
  std::uint8_t bytes[8] = {};  // Highway may write all of them
  hn::StoreMaskBits(Floats(), mask, bytes);
  return bytes[0];
}

// Fetches what is needed a few bins later. Without it memory is idle during the second pass over a
// bin: that pass misses nothing, so the hardware's prefetchers pause.
template <std::size_t kCount>
HWY_INLINE void prefetch_after(const float* gradient, const float* residual) {
  constexpr std::size_t kAhead = 640 * sizeof(float);
  constexpr std::size_t kLine = 64;
#pragma GCC unroll 8
  for (std::size_t byte = 0; byte < kCount * sizeof(float); byte += kLine) {
    // The address is an integer, because it may lie behind the array. It is only a hint, never
    // read.
    for (const float* start : {gradient, residual}) {
      const auto address = reinterpret_cast<std::uintptr_t>(start) + byte + kAhead;
      hwy::Prefetch(reinterpret_cast<const float*>(address));  // NOLINT(performance-no-int-to-ptr)
    }
  }
}

HWY_INLINE IntVector magnitude_bits(const float* gradient, const float* residual) {
  const Floats d;
  return hn::BitCast(Ints(), hn::Abs(hn::Add(hn::LoadU(d, residual), hn::LoadU(d, gradient))));
}

HWY_INLINE std::int32_t magnitude_bits_of(float value) {
  return std::bit_cast<std::int32_t>(value) & 0x7FFFFFFF;
}

// The bits of max |G|. As integers they have the order of the magnitudes, with infinity and NaN
// above all finite ones, so the maximum also tells whether all are finite.
HWY_INLINE std::int32_t max_magnitude_bits(const float* HWY_RESTRICT gradient,
                                           const float* HWY_RESTRICT residual, std::size_t count) {
  const std::size_t lanes = hn::Lanes(Floats());
  if (count < lanes) {
    std::int32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      largest = std::max(largest, magnitude_bits_of(residual[i] + gradient[i]));
    }
    return largest;
  }
  // The last vector may overlap the one before it. That does not change a maximum.
  IntVector even = magnitude_bits(gradient + count - lanes, residual + count - lanes);
  IntVector odd = even;
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Max(even, magnitude_bits(gradient + i, residual + i));
    odd = hn::Max(odd, magnitude_bits(gradient + i + lanes, residual + i + lanes));
  }
  if (i + lanes <= count) even = hn::Max(even, magnitude_bits(gradient + i, residual + i));
  return hn::GetLane(hn::MaxOfLanes(Ints(), hn::Max(even, odd)));
}

// Stores G and returns a bit for each |H| >= threshold.
HWY_INLINE std::uint64_t store_and_compare(FloatVector total, const float* gradient,
                                           float* residual, FloatVector threshold) {
  const Floats d;
  hn::StoreU(total, d, residual);
  const FloatVector ahead = hn::Add(total, hn::LoadU(d, gradient));
  return bits_of(hn::Ge(hn::Abs(ahead), threshold));
}

// The sign bit serves as the sign. G is -0 only where E and g are -0, and such elements are not
// sent.
HWY_INLINE std::uint32_t entry(const float* residual, std::uint32_t first, std::uint32_t at) {
  return 2 * (first + at) + (std::bit_cast<std::uint32_t>(residual[at]) >> 31);
}

HWY_INLINE std::uint32_t* emit(std::uint64_t chosen, const float* residual, std::uint32_t first,
                               std::uint32_t* out) {
  for (; chosen != 0; chosen &= chosen - 1) {
    *out++ = entry(residual, first, static_cast<std::uint32_t>(std::countr_zero(chosen)));
  }
  return out;
}

// The second pass over a bin, which is still in the first-level cache. It writes G into the
// residual and the selected entries to `out`. `first` is the position of the bin in its block.
HWY_INLINE std::uint32_t* update_bin(const float* HWY_RESTRICT gradient,
                                     float* HWY_RESTRICT residual, std::size_t count,
                                     float threshold, std::uint32_t first,
                                     std::uint32_t* HWY_RESTRICT out) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  if (count < lanes) {
    for (std::size_t i = 0; i < count; ++i) {
      residual[i] += gradient[i];
      const bool chosen = std::abs(residual[i] + gradient[i]) >= threshold;
      out = emit(chosen ? 1 : 0, residual + i, first + static_cast<std::uint32_t>(i), out);
    }
    return out;
  }
  const FloatVector thresholds = hn::Set(d, threshold);
  // The last vector may overlap the one before it, so its G is computed before any E is replaced.
  const std::size_t tail = count - lanes;
  const FloatVector tail_total =
      hn::Add(hn::LoadU(d, residual + tail), hn::LoadU(d, gradient + tail));
  constexpr std::size_t kWord = 64;
  for (std::size_t word = 0; word < count; word += kWord) {
    const std::size_t end = std::min(word + kWord, count);
    prefetch_after<kWord>(gradient + word, residual + word);
    std::uint64_t chosen = 0;
    std::size_t i = word;
    for (; i + lanes <= end; i += lanes) {
      const FloatVector total = hn::Add(hn::LoadU(d, residual + i), hn::LoadU(d, gradient + i));
      chosen |= store_and_compare(total, gradient + i, residual + i, thresholds) << (i - word);
    }
    if (i < end) {
      const std::uint64_t bits =
          store_and_compare(tail_total, gradient + tail, residual + tail, thresholds);
      chosen |= bits >> (i - tail) << (i - word);
    }
    out = emit(chosen, residual + word, first + static_cast<std::uint32_t>(word), out);
  }
  return out;
}

// Does both passes over one bin. If G is not finite, it changes nothing and returns false.
struct AnyBin {
  std::size_t count;

  HWY_INLINE bool operator()(const float* gradient, float* residual, std::uint32_t first,
                             std::uint32_t*& out, float& gmax) const {
    const std::int32_t gmax_bits = max_magnitude_bits(gradient, residual, count);
    if (gmax_bits >= kInfinityBits) return false;
    gmax = std::bit_cast<float>(gmax_bits);
    const float threshold = std::bit_cast<float>(gmax_bits == 0 ? kInfinityBits : gmax_bits);
    out = update_bin(gradient, residual, count, threshold, first, out);
    return true;
  }

  HWY_INLINE std::uint32_t* finish(std::uint32_t* out) const { return out; }
};

// The elements that a bin of at most 64 sends, before they are written.
struct SentOfBin {
  std::uint64_t chosen = 0;
  const float* residual = nullptr;
  std::uint32_t first = 0;
};

// Does what emit() does, without a loop for up to kMany entries. It always writes kFew or kMany,
// for which the bin has room, and counts only those that were sent: the mispredicted branches of a
// short loop cost more than superfluous entries.
constexpr int kFew = 3;
constexpr int kMany = 8;

HWY_INLINE std::uint32_t* emit_few(const SentOfBin& sent, std::size_t count, std::uint32_t* out) {
  const std::uint64_t last = std::uint64_t{1} << (count - 1);  // superfluous entries read this
  std::uint64_t chosen = sent.chosen;
  const auto write = [&](int i) {
    const auto at = static_cast<std::uint32_t>(std::countr_zero(chosen | last));
    out[i] = entry(sent.residual, sent.first, at);
    chosen &= chosen - 1;
  };
  const int sent_count = std::popcount(chosen);
#pragma GCC unroll 8
  for (int i = 0; i < kFew; ++i) write(i);
  if (sent_count > kFew) {
#pragma GCC unroll 8
    for (int i = kFew; i < kMany; ++i) write(i);
    emit(chosen, sent.residual, sent.first, out + kMany);
  }
  return out + sent_count;
}

// Does what AnyBin does for a bin of a known, small number of vectors, the last of which may
// overlap the one before it. G stays in registers between the passes.
//
// The entries are written only after the next bin has been read. This was measured to be a seventh
// faster where bins send about five elements, and no slower where they send about one.
template <std::size_t kVectors>
struct SmallBin {
  std::size_t count;
  SentOfBin unwritten;

  HWY_INLINE bool operator()(const float* HWY_RESTRICT gradient, float* HWY_RESTRICT residual,
                             std::uint32_t first, std::uint32_t*& out, float& gmax) {
    const Floats d;
    const Ints di;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t tail = count - lanes;
    const auto start = [&](std::size_t v) { return v + 1 == kVectors ? tail : v * lanes; };
    prefetch_after<kVectors * hn::MaxLanes(Floats())>(gradient, residual);
    FloatVector total[kVectors];
    IntVector largest = hn::Zero(di);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      total[v] = hn::Add(hn::LoadU(d, residual + start(v)), hn::LoadU(d, gradient + start(v)));
      largest = hn::Max(largest, hn::BitCast(di, hn::Abs(total[v])));
    }
    out = finish(out);
    largest = hn::MaxOfLanes(di, largest);
    const std::int32_t gmax_bits = hn::GetLane(largest);
    if (gmax_bits >= kInfinityBits) return false;
    gmax = std::bit_cast<float>(gmax_bits);
    const FloatVector threshold =
        gmax_bits == 0 ? hn::Set(d, std::bit_cast<float>(kInfinityBits)) : hn::BitCast(d, largest);
    std::uint64_t chosen = 0;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::uint64_t bits =
          store_and_compare(total[v], gradient + start(v), residual + start(v), threshold);
      chosen |= bits >> (v * lanes - start(v)) << (v * lanes);
    }
    unwritten = {chosen, residual, first};
    return true;
  }

  HWY_INLINE std::uint32_t* finish(std::uint32_t* out) {
    if (unwritten.residual != nullptr) out = emit_few(unwritten, count, out);
    unwritten = {};
    return out;
  }
};

template <class Bin>
AdacompBlock select_bins(Bin bin, std::span<const float> gradient, std::span<float> residual,
                         std::uint32_t* selection) {
  AdacompBlock block;
  std::uint32_t* out = selection;
  const auto whole = [&](auto& bin) {
    float gmax;
    if (!bin(gradient.data() + block.done, residual.data() + block.done,
             static_cast<std::uint32_t>(block.done), out, gmax)) {
      return false;
    }
    block.gmax_sum += gmax;
    block.done += bin.count;
    return true;
  };
  bool finite = true;
  while (finite && gradient.size() - block.done >= bin.count) finite = whole(bin);
  out = bin.finish(out);
  AnyBin rest{gradient.size() - block.done};
  if (finite && rest.count > 0) whole(rest);
  block.selected = static_cast<std::size_t>(out - selection);
  return block;
}

AdacompBlock select(std::span<const float> gradient, std::span<float> residual,
                    std::size_t bin_length, std::uint32_t* selection) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto with = [&](auto bin) { return select_bins(bin, gradient, residual, selection); };
  switch (bin_length < std::max<std::size_t>(lanes, kMany) ? 0 : (bin_length + lanes - 1) / lanes) {
    case 4:
      return with(SmallBin<4>{bin_length, {}});
    case 5:
      return with(SmallBin<5>{bin_length, {}});
    case 6:
      return with(SmallBin<6>{bin_length, {}});
    case 7:
      return with(SmallBin<7>{bin_length, {}});
    case 8:
      return with(SmallBin<8>{bin_length, {}});
    default:
      return with(AnyBin{bin_length});
  }
}

}  // namespace
}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {
namespace {

HWY_EXPORT(select);

// Far enough ahead to hide a cache miss behind the additions in between.
constexpr std::size_t kPrefetchDistance = 24;

}  // namespace

AdacompBlock adacomp_select(std::span<const float> gradient, std::span<float> residual,
                            std::size_t bin_length, std::uint32_t* selection) {
  return HWY_DYNAMIC_DISPATCH(select)(gradient, residual, bin_length, selection);
}

void add_signed(std::span<float> values, std::span<const std::uint32_t> selection, float scale) {
  const auto scale_bits = std::bit_cast<std::uint32_t>(scale);
  const auto add = [&](std::uint32_t entry) {
    values[entry / 2] += std::bit_cast<float>(scale_bits ^ (entry << 31));
  };
  std::size_t i = 0;
  for (; i + kPrefetchDistance < selection.size(); ++i) {
    hwy::Prefetch(&values[selection[i + kPrefetchDistance] / 2]);
    add(selection[i]);
  }
  for (; i < selection.size(); ++i) add(selection[i]);
}

}  // namespace gradwire::kernels
#endif
