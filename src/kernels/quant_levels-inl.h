// The levels of quant.h for each number of bits: how a step of elements gets its levels, and how
// levels are packed into codes and back. This file is included once per SIMD target.
#if defined(GRADWIRE_KERNELS_QUANT_LEVELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_KERNELS_QUANT_LEVELS_INL_H_
#undef GRADWIRE_KERNELS_QUANT_LEVELS_INL_H_
#else
#define GRADWIRE_KERNELS_QUANT_LEVELS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/streaming_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {

using StepLevels = FloatVector[kStepVectors];

// Adding this to a small number rounds it to an integer, ties to even, which then stands in two's
// complement in the low bits of the sum.
inline constexpr float kIntegerShift = 12582912.0F;  // 1.5 * 2^23

// One byte for each of a step's levels, which are integers from -128 to 127.
HWY_INLINE void store_level_bytes(const StepLevels& levels, std::uint8_t* bytes) {
  const hn::Rebind<std::uint8_t, Floats> d8;
  const hn::RebindToUnsigned<Floats> d32;
#pragma GCC unroll 32
  for (std::size_t v = 0; v < kStepVectors; ++v) {
    const auto shifted = hn::Add(levels[v], hn::Set(Floats(), kIntegerShift));
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(d32, shifted)), d8, bytes + v * kVectorLanes);
  }
}

// Joins the low bits of 2 or 4 neighbouring bytes in one byte. Word has as many bytes. The words of
// one vector are the bytes that one vector of levels was stored to, so the load finds them in one
// piece.
template <class Word>
HWY_INLINE void join_level_bytes(const std::uint8_t* bytes, std::uint8_t* codes) {
  constexpr int kBits = 8 / sizeof(Word);
  constexpr std::size_t kLanes = std::max<std::size_t>(1, kVectorLanes / sizeof(Word));
  const hn::CappedTag<Word, kLanes> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto mask = hn::Set(d, Word{(1 << kBits) - 1});
  for (std::size_t i = 0; i < kStep / sizeof(Word); i += kLanes) {
    const auto word = hn::LoadU(d, reinterpret_cast<const Word*>(bytes) + i);
    auto code = hn::And(word, mask);
    code = hn::Or(code, hn::ShiftLeft<kBits>(hn::And(hn::ShiftRight<8>(word), mask)));
    if constexpr (sizeof(Word) == 4) {
      code = hn::Or(code, hn::ShiftLeft<2 * kBits>(hn::And(hn::ShiftRight<16>(word), mask)));
      code = hn::Or(code, hn::ShiftLeft<3 * kBits>(hn::And(hn::ShiftRight<24>(word), mask)));
    }
    hn::StoreU(hn::TruncateTo(d8, code), d8, codes + i);
  }
}

HWY_INLINE std::uint32_t load_word(const std::uint8_t* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// The codes of a step as numbers: each is moved to the top of its lane, which extends its sign on
// the way back.
template <int kBits>
HWY_INLINE void load_codes(const std::uint8_t* codes, StepLevels& numbers) {
  constexpr std::size_t kPerWord = 32 / kBits;
  const hn::RebindToSigned<Floats> di;
  const hn::RebindToUnsigned<Floats> du;
  alignas(64) std::uint32_t to_top[kStep];
  for (std::size_t i = 0; i < kStep; ++i) to_top[i] = 32 - kBits * (i % kPerWord + 1);

#pragma GCC unroll 32
  for (std::size_t v = 0; v < kStepVectors; ++v) {
    const std::size_t first = v * kVectorLanes;
    const std::uint8_t* const here = codes + first / kPerWord * sizeof(std::uint32_t);
    auto word = hn::Set(du, load_word(here));
    if constexpr (kVectorLanes > kPerWord) {
      const auto next = hn::Set(du, load_word(here + sizeof(std::uint32_t)));
      word = hn::IfThenElse(hn::FirstN(du, kPerWord), word, next);
    }
    const auto top = hn::Shl(word, hn::Load(du, to_top + first));
    numbers[v] = hn::ConvertTo(Floats(), hn::ShiftRight<32 - kBits>(hn::BitCast(di, top)));
  }
}

// What a block's scale is computed from.
struct Extent {
  float largest;  // max |x|
  float sum;      // of all |x|, if a Levels needs it
};

inline float as_bfloat16(std::uint32_t bits) { return std::bit_cast<float>(bits & 0xFFFF0000U); }

// 8 and 4 bits: integers up to kLargest.
template <int kLargest>
struct IntegerLevels {
  static constexpr bool kNeedsSum = false;

  static float scale_of(Extent extent, std::size_t /*count*/) {
    if (extent.largest == 0) return 0;
    const float exact = std::max(extent.largest / kLargest, std::numeric_limits<float>::min());
    return as_bfloat16(std::bit_cast<std::uint32_t>(exact) + 0xFFFF);
  }

  explicit IntegerLevels(float scale) : reciprocal(hn::Set(Floats(), 1 / scale)) {}

  HWY_INLINE FloatVector level(FloatVector x) const {
    const FloatVector shift = hn::Set(Floats(), kIntegerShift);
    return hn::Sub(hn::Add(hn::Mul(x, reciprocal), shift), shift);
  }

  FloatVector reciprocal;
};

// 2 bits and 1 bit: the scale is the mean.
struct MeanScale {
  static constexpr bool kNeedsSum = true;

  static float scale_of(Extent extent, std::size_t count) {
    const auto bits = std::bit_cast<std::uint32_t>(extent.sum / static_cast<float>(count));
    return as_bfloat16(bits + 0x7FFF + (bits >> 16 & 1));
  }
};

template <int kBits>
struct Levels;

template <>
struct Levels<8> : IntegerLevels<127> {
  using IntegerLevels::IntegerLevels;

  static HWY_INLINE void pack(const StepLevels& levels, std::uint8_t* codes) {
    store_level_bytes(levels, codes);
  }

  static HWY_INLINE void unpack(const std::uint8_t* codes, StepLevels& levels) {
    const hn::Rebind<std::int8_t, Floats> d8;
    const hn::RebindToSigned<Floats> d32;
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      const auto* bytes = reinterpret_cast<const std::int8_t*>(codes) + v * kVectorLanes;
      levels[v] = hn::ConvertTo(Floats(), hn::PromoteTo(d32, hn::LoadU(d8, bytes)));
    }
  }
};

template <>
struct Levels<4> : IntegerLevels<7> {
  using IntegerLevels::IntegerLevels;

  static HWY_INLINE void pack(const StepLevels& levels, std::uint8_t* codes) {
    alignas(64) std::uint8_t bytes[kStep];
    store_level_bytes(levels, bytes);
    join_level_bytes<std::uint16_t>(bytes, codes);
  }

  static HWY_INLINE void unpack(const std::uint8_t* codes, StepLevels& levels) {
    load_codes<4>(codes, levels);
  }
};

template <>
struct Levels<2> : MeanScale {
  explicit Levels(float scale) : threshold(hn::Set(Floats(), scale)) {}

  HWY_INLINE FloatVector level(FloatVector x) const {
    const Floats d;
    const auto large = hn::Ge(hn::Abs(x), threshold);
    const auto magnitude = hn::IfThenElse(large, hn::Set(d, 1.5F), hn::Set(d, 0.5F));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(magnitude), magnitude);
  }

  static HWY_INLINE void pack(const StepLevels& levels, std::uint8_t* codes) {
    StepLevels integers;
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      integers[v] = hn::Sub(levels[v], hn::Set(Floats(), 0.5F));
    }
    alignas(64) std::uint8_t bytes[kStep];
    store_level_bytes(integers, bytes);
    join_level_bytes<std::uint32_t>(bytes, codes);
  }

  static HWY_INLINE void unpack(const std::uint8_t* codes, StepLevels& levels) {
    load_codes<2>(codes, levels);
    for (FloatVector& level : levels) level = hn::Add(level, hn::Set(Floats(), 0.5F));
  }

  FloatVector threshold;
};

template <>
struct Levels<1> : MeanScale {
  explicit Levels(float /*scale*/) {}

  HWY_INLINE FloatVector level(FloatVector x) const {
    const Floats d;
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, -1.0F), hn::Set(d, 1.0F));
  }

  static HWY_INLINE void pack(const StepLevels& levels, std::uint8_t* codes) {
    hn::Mask<Floats> positive[kStepVectors];
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      positive[v] = hn::Gt(levels[v], hn::Zero(Floats()));
    }
    store_step_bits(positive, codes);
  }

  // A set bit is the number -1.
  static HWY_INLINE void unpack(const std::uint8_t* codes, StepLevels& levels) {
    load_codes<1>(codes, levels);
    for (FloatVector& level : levels) {
      level = hn::Sub(hn::Set(Floats(), -1.0F), hn::Add(level, level));
    }
  }
};

}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
