#include "kernels/quant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant.cpp"
#include <hwy/foreach_target.h>
// The line above has to come first: it includes this file, and the next, once per target.
#include "kernels/quant_levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kScaleBytes = sizeof(std::uint16_t);
constexpr float kTooLarge = 0x1p126F;

float load_scale(const std::uint8_t* record) {
  std::uint16_t half;
  std::memcpy(&half, record, sizeof(half));
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}

// The scale is a bf16 already.
void store_scale(float scale, std::uint8_t* record) {
  const auto half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(scale) >> 16);
  std::memcpy(record, &half, sizeof(half));
}

// The loops below run over whole steps. A block that ends within a step is computed in copies that
// are filled up with zeros.
constexpr std::size_t whole_steps(std::size_t count) { return (count + kStep - 1) / kStep * kStep; }

struct PaddedFloats {
  PaddedFloats(const float* from, std::size_t count) {
    std::fill(std::copy_n(from, count, values), values + whole_steps(count), 0.0F);
  }
  alignas(64) float values[kLargestQuantBlock];
};

// The numbers that are quantised, and what becomes of the rest. Each has these members:
//   prefetch(i)           fetches what is read a page after element i
//   at(i)                 the vector of numbers from element i on
//   settle(i, x, decoded) takes note that x = at(i) is sent as `decoded`
//   too_large             at this magnitude a number counts as not finite

struct Gradient {
  HWY_INLINE void prefetch(std::size_t i) const { prefetch_page_ahead(gradient + i); }
  HWY_INLINE FloatVector at(std::size_t i) const { return hn::LoadU(Floats(), gradient + i); }
  HWY_INLINE void settle(std::size_t, FloatVector, FloatVector) const {}

  const float* gradient;
  float too_large = kTooLarge;
};

struct GradientAndResidual {
  HWY_INLINE void prefetch(std::size_t i) const {
    prefetch_page_ahead(gradient + i);
    prefetch_page_ahead(residual + i);
  }
  HWY_INLINE FloatVector at(std::size_t i) const {
    return hn::Add(hn::LoadU(Floats(), gradient + i), hn::LoadU(Floats(), residual + i));
  }
  HWY_INLINE void settle(std::size_t i, FloatVector x, FloatVector decoded) const {
    hn::StoreU(hn::Sub(x, decoded), Floats(), residual + i);
  }

  const float* gradient;
  float* residual;
  float too_large = kTooLarge;
};

// It is the sums, not the means, that must not overflow.
struct Mean {
  Mean(const float* sums_in, std::size_t workers_in)
      : sums(sums_in),
        workers(static_cast<float>(workers_in)),
        factor(1 / workers),
        too_large(kTooLarge * factor) {}

  HWY_INLINE void prefetch(std::size_t) const {}
  HWY_INLINE FloatVector at(std::size_t i) const {
    return hn::Mul(hn::LoadU(Floats(), sums + i), hn::Set(Floats(), factor));
  }
  HWY_INLINE void settle(std::size_t, FloatVector, FloatVector) const {}

  const float* sums;
  float workers;
  float factor;
  float too_large;
};

struct MeanWithResidual : Mean {
  HWY_INLINE void prefetch(std::size_t i) const { prefetch_page_ahead(residual + i); }
  HWY_INLINE void settle(std::size_t i, FloatVector, FloatVector decoded) const {
    const Floats d;
    const FloatVector sent = hn::Mul(hn::Set(d, workers), decoded);
    const FloatVector rest = hn::Sub(hn::LoadU(d, sums + i), sent);
    hn::StoreU(hn::Add(hn::LoadU(d, residual + i), rest), d, residual + i);
  }

  float* residual;
};

// The sum of a vector's lanes: the upper half is added to the lower half until one lane is left.
template <class D>
HWY_INLINE float sum_of_lanes(D /*tag*/, hn::Vec<D> lanes) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(lanes);
  } else {
    const hn::Half<D> half;
    // Not hn::UpperHalf, because targets with one lane do not have it.
    return sum_of_lanes(half, hn::Add(LowerHalf(half, lanes), UpperHalf(half, lanes)));
  }
}

// The same for a step, so the order of additions does not depend on the length of vectors.
HWY_INLINE float sum_of_step(StepLevels& sums) {
#pragma GCC unroll 8
  for (std::size_t half = kStepVectors / 2; half > 0; half /= 2) {
    for (std::size_t v = 0; v < half; ++v) sums[v] = hn::Add(sums[v], sums[v + half]);
  }
  return sum_of_lanes(Floats(), sums[0]);
}

// What the kernels work on at once: `blocks` blocks of `count` elements each, or one block if it
// ends within a step. While one block waits for its maximum or a quotient, others are computed, and
// all are still in the L1 cache when they are read again.
struct Group {
  std::size_t start;  // first element
  std::size_t blocks;
  std::size_t count;
  std::size_t at;  // first byte of the records
  std::size_t stride;

  std::size_t steps() const { return whole_steps(count); }
  std::size_t elements() const { return blocks * count; }
};

// The elements of a group. Shorter groups are better where gradients and residuals are read from
// memory, for these reads should never pause.
constexpr std::size_t kGradientGroup = 256;
constexpr std::size_t kRecordGroup = 1024;
constexpr std::size_t kMostBlocks = kRecordGroup / kStep;

// Calls body(kBits, group) for all groups.
template <class Body>
void for_each_group(QuantFormat format, std::size_t elements, std::size_t group_elements,
                    const Body& body) {
  const auto run = [&](auto bits) {
    const std::size_t stride = format.record_bytes();
    const std::size_t most = std::max<std::size_t>(1, group_elements / format.block);
    std::size_t at = 0;
    for (std::size_t start = 0; start < elements;) {
      const std::size_t left = elements - start;
      const bool alone = left < format.block || format.block % kStep != 0;
      const std::size_t blocks = alone ? 1 : std::min(most, left / format.block);
      body(bits, Group{start, blocks, std::min(left, format.block), at, stride});
      start += blocks * format.block;
      at += blocks * stride;
    }
  };
  switch (format.bits) {
    case 8:
      return run(std::integral_constant<int, 8>());
    case 4:
      return run(std::integral_constant<int, 4>());
    case 2:
      return run(std::integral_constant<int, 2>());
    default:
      return run(std::integral_constant<int, 1>());
  }
}

// The extent of the block that starts at element `start`. `largest` is NaN or inf if a number is.
template <bool kNeedsSum, class Source>
HWY_INLINE Extent extent_of(const Source& source, std::size_t start, std::size_t steps) {
  const Floats d;
  // Magnitudes are in the same order as their bits, where NaN follows inf.
  const hn::RebindToSigned<Floats> di;
  auto largest = hn::Zero(di);
  StepLevels sums;
  for (FloatVector& sum : sums) sum = hn::Zero(d);
  for (std::size_t i = start; i < start + steps; i += kStep) {
    source.prefetch(i);
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      const FloatVector magnitude = hn::Abs(source.at(i + v * kVectorLanes));
      largest = hn::Max(largest, hn::BitCast(di, magnitude));
      if constexpr (kNeedsSum) sums[v] = hn::Add(sums[v], magnitude);
    }
  }
  return {std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest))),
          kNeedsSum ? sum_of_step(sums) : 0.0F};
}

// Writes the codes of the block that starts at element `start`, and settles it.
template <int kBits, class Source>
HWY_INLINE void encode_codes(const Source& source, std::size_t start, std::size_t steps,
                             float scale, std::uint8_t* HWY_RESTRICT codes) {
  const Floats d;
  const Levels<kBits> of_block(scale);
  for (std::size_t i = 0; i < steps; i += kStep) {
    StepLevels levels;
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      const std::size_t at = start + i + v * kVectorLanes;
      const FloatVector x = source.at(at);
      levels[v] = of_block.level(x);
      source.settle(at, x, hn::Mul(levels[v], hn::Set(d, scale)));
    }
    Levels<kBits>::pack(levels, codes + i * kBits / 8);
  }
}

// A block of scale 0: its codes are 0, and nothing of it is sent.
template <int kBits, class Source>
void encode_zeros(const Source& source, std::size_t start, std::size_t steps, std::uint8_t* codes) {
  std::memset(codes, 0, steps * kBits / 8);
  for (std::size_t i = start; i < start + steps; i += kVectorLanes) {
    source.settle(i, source.at(i), hn::Zero(Floats()));
  }
}

// Writes the records of a group, in whole steps. Returns whether all blocks are finite.
template <int kBits, class Source>
HWY_INLINE bool encode_group(const Source& source, const Group& group, std::uint8_t* records) {
  Extent extents[kMostBlocks];
  for (std::size_t k = 0; k < group.blocks; ++k) {
    extents[k] = extent_of<Levels<kBits>::kNeedsSum>(source, k * group.count, group.steps());
  }
  bool finite = true;
  for (std::size_t k = 0; k < group.blocks; ++k) {
    std::uint8_t* const record = records + k * group.stride;
    std::uint8_t* const codes = record + kScaleBytes;
    if (!(extents[k].largest < source.too_large && std::isfinite(extents[k].sum))) {
      store_scale(std::numeric_limits<float>::quiet_NaN(), record);
      std::memset(codes, 0, group.steps() * kBits / 8);
      finite = false;
      continue;
    }
    const float scale = Levels<kBits>::scale_of(extents[k], group.count);
    store_scale(scale, record);
    scale == 0 ? encode_zeros<kBits>(source, k * group.count, group.steps(), codes)
               : encode_codes<kBits>(source, k * group.count, group.steps(), scale, codes);
  }
  return finite;
}

// The same for a block that ends within a step. The bits beyond its end are 0.
template <int kBits, class Source>
bool encode_short(const Source& source, Group group, std::uint8_t* record) {
  group.blocks = 1;
  std::uint8_t whole[kScaleBytes + kLargestQuantBlock];
  const bool finite = encode_group<kBits>(source, group, whole);
  const std::size_t bits = group.count * kBits;
  const std::size_t bytes = kScaleBytes + (bits + 7) / 8;
  std::memcpy(record, whole, bytes);
  if (bits % 8 != 0) record[bytes - 1] &= static_cast<std::uint8_t>((1 << bits % 8) - 1);
  return finite;
}

template <int kBits>
bool encode_gradient(const Group& group, const float* gradient, std::uint8_t* records) {
  if (group.count % kStep == 0) return encode_group<kBits>(Gradient{gradient}, group, records);
  const PaddedFloats padded(gradient, group.count);
  return encode_short<kBits>(Gradient{padded.values}, group, records);
}

template <int kBits>
bool encode_with_residual(const Group& group, const float* gradient, float* residual,
                          std::uint8_t* records) {
  if (group.count % kStep == 0) {
    return encode_group<kBits>(GradientAndResidual{gradient, residual}, group, records);
  }
  const PaddedFloats padded(gradient, group.count);
  PaddedFloats own(residual, group.count);
  const bool finite =
      encode_short<kBits>(GradientAndResidual{padded.values, own.values}, group, records);
  std::copy_n(own.values, group.count, residual);
  return finite;
}

// Adds the decoded record to the sum, over whole steps. The sum starts at +0 if `first`.
template <int kBits>
HWY_INLINE void add_record(const std::uint8_t* HWY_RESTRICT record, std::size_t steps, bool first,
                           float* HWY_RESTRICT sum) {
  const Floats d;
  const FloatVector scale = hn::Set(d, load_scale(record));
  for (std::size_t i = 0; i < steps; i += kStep) {
    StepLevels levels;
    Levels<kBits>::unpack(record + kScaleBytes + i * kBits / 8, levels);
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      float* const out = sum + i + v * kVectorLanes;
      const FloatVector before = first ? hn::Zero(d) : hn::LoadU(d, out);
      hn::StoreU(hn::Add(before, hn::Mul(levels[v], scale)), d, out);
    }
  }
}

// Adds up a group of all parts. A block that ends within a step needs a `sums` of whole steps.
template <int kBits>
HWY_INLINE void add_parts(const Group& group, std::span<const std::uint8_t* const> parts,
                          float* sums) {
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::uint8_t* records = parts[p] + group.at;
    std::uint8_t whole[kScaleBytes + kLargestQuantBlock];
    if (group.count % kStep != 0) {
      std::memcpy(whole, records, kScaleBytes + (group.count * kBits + 7) / 8);
      records = whole;
    }
    for (std::size_t k = 0; k < group.blocks; ++k) {
      add_record<kBits>(records + k * group.stride, group.steps(), p == 0, sums + k * group.count);
    }
  }
}

template <int kBits>
bool average_group(const Group& group, std::span<const std::uint8_t* const> parts, float* residual,
                   std::uint8_t* records) {
  alignas(64) float sums[kLargestQuantBlock];
  add_parts<kBits>(group, parts, sums);
  const Mean mean(sums, parts.size());
  if (group.count % kStep == 0) {
    if (residual == nullptr) return encode_group<kBits>(mean, group, records);
    return encode_group<kBits>(MeanWithResidual{mean, residual}, group, records);
  }
  std::fill(sums + group.count, sums + group.steps(), 0.0F);
  if (residual == nullptr) return encode_short<kBits>(mean, group, records);
  PaddedFloats own(residual, group.count);
  const bool finite = encode_short<kBits>(MeanWithResidual{mean, own.values}, group, records);
  std::copy_n(own.values, group.count, residual);
  return finite;
}

bool encode_all(QuantFormat format, std::span<const float> gradient, float* residual,
                std::uint8_t* records) {
  bool finite = true;
  for_each_group(format, gradient.size(), kGradientGroup, [&](auto bits, const Group& group) {
    const float* const from = gradient.data() + group.start;
    std::uint8_t* const to = records + group.at;
    finite &= residual == nullptr
                  ? encode_gradient<bits.value>(group, from, to)
                  : encode_with_residual<bits.value>(group, from, residual + group.start, to);
  });
  return finite;
}

bool average_all(QuantFormat format, std::span<const std::uint8_t* const> parts,
                 std::size_t elements, float* residual, std::uint8_t* records) {
  bool finite = true;
  for_each_group(format, elements, kRecordGroup, [&](auto bits, const Group& group) {
    float* const own = residual == nullptr ? nullptr : residual + group.start;
    finite &= average_group<bits.value>(group, parts, own, records + group.at);
  });
  return finite;
}

void sum_all_parts(QuantFormat format, std::span<const std::uint8_t* const> parts, float factor,
                   std::span<float> result) {
  for_each_group(format, result.size(), kRecordGroup, [&](auto bits, const Group& group) {
    float* const to = result.data() + group.start;
    if (group.count % kStep == 0) {
      add_parts<bits.value>(group, parts, to);
    } else {
      alignas(64) float sums[kLargestQuantBlock];
      add_parts<bits.value>(group, parts, sums);
      std::copy_n(sums, group.count, to);
    }
    if (factor == 1) return;
    for (std::size_t i = 0; i < group.elements(); ++i) to[i] *= factor;
  });
}

}  // namespace
}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {

HWY_EXPORT(encode_all);
HWY_EXPORT(average_all);
HWY_EXPORT(sum_all_parts);

bool quantise(QuantFormat format, std::span<const float> gradient, std::span<float> residual,
              std::span<std::uint8_t> records) {
  float* const own = residual.empty() ? nullptr : residual.data();
  return HWY_DYNAMIC_DISPATCH(encode_all)(format, gradient, own, records.data());
}

bool average_quantised(QuantFormat format, std::span<const std::uint8_t* const> parts,
                       std::size_t elements, std::span<float> residual,
                       std::span<std::uint8_t> records) {
  float* const own = residual.empty() ? nullptr : residual.data();
  return HWY_DYNAMIC_DISPATCH(average_all)(format, parts, elements, own, records.data());
}

void sum_quantised(QuantFormat format, std::span<const std::uint8_t* const> parts, float factor,
                   std::span<float> result) {
  if (parts.empty()) return std::fill(result.begin(), result.end(), 0.0F);
  HWY_DYNAMIC_DISPATCH(sum_all_parts)(format, parts, factor, result);
}

void dequantise(QuantFormat format, std::span<const std::uint8_t> records,
                std::span<float> result) {
  const std::uint8_t* const part = records.data();
  sum_quantised(format, {&part, 1}, 1.0F, result);
}

}  // namespace gradwire::kernels
#endif
