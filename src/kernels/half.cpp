#include "kernels/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/half.cpp"
#include <hwy/foreach_target.h>
// The line above has to come first: it includes this file, and the next, once per target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Halves = hn::Rebind<std::uint16_t, D>;
template <class D>
using Bits = hn::RebindToUnsigned<D>;

constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;

// Magnitudes are below 2^31, so they can be compared as signed numbers, for which every target has
// an instruction.
template <class D>
HWY_INLINE hn::Mask<Bits<D>> above(D, hn::Vec<Bits<D>> magnitude, std::uint32_t limit) {
  const hn::RebindToSigned<D> di;
  return hn::RebindMask(
      Bits<D>(), hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<std::int32_t>(limit))));
}

// Keeps the low 16 bits of values that fit into them.
template <class D>
HWY_INLINE hn::Vec<Halves<D>> low_halves(D, hn::Vec<Bits<D>> bits) {
  return hn::DemoteTo(Halves<D>(), hn::BitCast(hn::RebindToSigned<D>(), bits));
}

struct Bfloat16 {
  template <class D>
  static HWY_INLINE hn::Vec<D> widen(D d, hn::Vec<Halves<D>> halves) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(Bits<D>(), halves)));
  }

  template <class D>
  static HWY_INLINE hn::Vec<Halves<D>> narrow(D d, hn::Vec<D> values) {
    const Bits<D> du;
    const auto bits = hn::BitCast(du, values);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000));
    const auto nan = hn::RebindMask(du, hn::IsNaN(values));
    return low_halves(d, hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded)));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)

// Highway converts with the instructions of F16C, which round as specified.
struct Float16 {
  template <class D>
  static HWY_INLINE hn::Vec<D> widen(D d, hn::Vec<Halves<D>> halves) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), halves));
  }

  template <class D>
  static HWY_INLINE hn::Vec<Halves<D>> narrow(D, hn::Vec<D> values) {
    return hn::BitCast(Halves<D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), values));
  }
};

#else

// Highway's own emulation does not promise the rounding and the NaNs of F16C.
struct Float16 {
  template <class D>
  static HWY_INLINE hn::Vec<D> widen(D d, hn::Vec<Halves<D>> halves) {
    const Bits<D> du;
    const auto bits = hn::PromoteTo(du, halves);
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
    const auto small = hn::And(bits, hn::Set(du, 0x7FFF));
    const auto shifted = hn::ShiftLeft<13>(small);

    const auto normal = hn::Add(shifted, hn::Set(du, (127 - 15) << 23));
    // A subnormal that gets the exponent of the least normal number is too large by that number.
    const auto least_normal = hn::Set(du, (127 - 14) << 23);
    const auto subnormal = hn::BitCast(
        du, hn::Sub(hn::BitCast(d, hn::Add(shifted, least_normal)), hn::BitCast(d, least_normal)));
    const auto special = hn::Or(shifted, hn::Set(du, kInfinity));
    const auto quiet = hn::Or(special, hn::Set(du, 0x00400000));

    auto magnitude = hn::IfThenElse(above(d, small, 0x03FF), normal, subnormal);
    magnitude = hn::IfThenElse(above(d, small, 0x7BFF), special, magnitude);
    magnitude = hn::IfThenElse(above(d, small, 0x7C00), quiet, magnitude);
    return hn::BitCast(d, hn::Or(magnitude, sign));
  }

  template <class D>
  static HWY_INLINE hn::Vec<Halves<D>> narrow(D d, hn::Vec<D> values) {
    const Bits<D> du;
    const auto bits = hn::BitCast(du, values);
    const auto magnitude = hn::And(bits, hn::Set(du, kMagnitude));
    const auto sign = hn::ShiftRight<16>(hn::AndNot(hn::Set(du, kMagnitude), bits));

    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
    const auto rebiased = hn::Sub(magnitude, hn::Set(du, (127 - 15) << 23));
    const auto normal = hn::ShiftRight<13>(hn::Add(rebiased, hn::Add(odd, hn::Set(du, 0x0FFF))));
    // The last place of 0.5 is the least subnormal, 2^-24. So adding a small number to 0.5 rounds
    // it there.
    const auto half = hn::Set(d, 0.5F);
    const auto subnormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
    const auto infinite = hn::Set(du, 0x7C00);
    const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x03FF));
    const auto nan = hn::Or(payload, hn::Set(du, 0x7E00));

    auto small = hn::IfThenElse(above(d, magnitude, ((127 - 14) << 23) - 1), normal, subnormal);
    small = hn::IfThenElse(above(d, magnitude, ((127 + 16) << 23) - 1), infinite, small);
    small = hn::IfThenElse(above(d, magnitude, kInfinity), nan, small);
    return low_halves(d, hn::Or(small, sign));
  }
};

#endif

// Each loop below runs over whole vectors first, then over single elements as vectors of one lane.
using Full = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;

template <class Format, class D>
HWY_INLINE std::size_t narrow_from(D d, std::size_t i, std::span<const float> values,
                                   std::span<std::uint16_t> halves) {
  for (; i + hn::Lanes(d) <= values.size(); i += hn::Lanes(d)) {
    const auto half = Format::narrow(d, hn::LoadU(d, values.data() + i));
    hn::StoreU(half, Halves<D>(), halves.data() + i);
  }
  return i;
}

template <class Format, class D>
HWY_INLINE std::size_t widen_from(D d, std::size_t i, std::span<const std::uint16_t> halves,
                                  std::span<float> values) {
  for (; i + hn::Lanes(d) <= halves.size(); i += hn::Lanes(d)) {
    const auto half = hn::LoadU(Halves<D>(), halves.data() + i);
    hn::StoreU(Format::widen(d, half), d, values.data() + i);
  }
  return i;
}

template <class Format, class D>
HWY_INLINE std::size_t sum_from(D d, std::size_t i, std::span<const std::uint16_t* const> parts,
                                float factor, std::span<std::uint16_t> sum) {
  for (; i + hn::Lanes(d) <= sum.size(); i += hn::Lanes(d)) {
    auto total = hn::Zero(d);
    for (const std::uint16_t* part : parts) {
      total = hn::Add(total, Format::widen(d, hn::LoadU(Halves<D>(), part + i)));
    }
    const auto half = Format::narrow(d, hn::Mul(total, hn::Set(d, factor)));
    hn::StoreU(half, Halves<D>(), sum.data() + i);
  }
  return i;
}

template <class Format>
void narrow_all(std::span<const float> values, std::span<std::uint16_t> halves) {
  narrow_from<Format>(Single(), narrow_from<Format>(Full(), 0, values, halves), values, halves);
}

template <class Format>
void widen_all(std::span<const std::uint16_t> halves, std::span<float> values) {
  widen_from<Format>(Single(), widen_from<Format>(Full(), 0, halves, values), halves, values);
}

template <class Format>
void sum_all(std::span<const std::uint16_t* const> parts, float factor,
             std::span<std::uint16_t> sum) {
  const std::size_t i = sum_from<Format>(Full(), 0, parts, factor, sum);
  sum_from<Format>(Single(), i, parts, factor, sum);
}

void narrow_to(HalfFormat format, std::span<const float> values, std::span<std::uint16_t> halves) {
  format == HalfFormat::kBfloat16 ? narrow_all<Bfloat16>(values, halves)
                                  : narrow_all<Float16>(values, halves);
}

void widen_to(HalfFormat format, std::span<const std::uint16_t> halves, std::span<float> values) {
  format == HalfFormat::kBfloat16 ? widen_all<Bfloat16>(halves, values)
                                  : widen_all<Float16>(halves, values);
}

void sum_to(HalfFormat format, std::span<const std::uint16_t* const> parts, float factor,
            std::span<std::uint16_t> sum) {
  format == HalfFormat::kBfloat16 ? sum_all<Bfloat16>(parts, factor, sum)
                                  : sum_all<Float16>(parts, factor, sum);
}

}  // namespace
}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {

HWY_EXPORT(narrow_to);
HWY_EXPORT(widen_to);
HWY_EXPORT(sum_to);

void narrow(HalfFormat format, std::span<const float> values, std::span<std::uint16_t> halves) {
  HWY_DYNAMIC_DISPATCH(narrow_to)(format, values, halves);
}

void widen(HalfFormat format, std::span<const std::uint16_t> halves, std::span<float> values) {
  HWY_DYNAMIC_DISPATCH(widen_to)(format, halves, values);
}

void sum_halves(HalfFormat format, std::span<const std::uint16_t* const> parts, float factor,
                std::span<std::uint16_t> sum) {
  HWY_DYNAMIC_DISPATCH(sum_to)(format, parts, factor, sum);
}

}  // namespace gradwire::kernels
#endif
