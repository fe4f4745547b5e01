#include "kernels/vote.h"

#include <algorithm>
#include <bit>

#include "kernels/sign.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vote.cpp"
#include <hwy/foreach_target.h>
// The line above has to come first: it includes this file, and the next, once per target.
#include "kernels/streaming_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {
namespace {

bool pack(const float* HWY_RESTRICT gradient, std::size_t count, std::uint8_t* HWY_RESTRICT bits) {
  const Floats d;
  // x * 0 is NaN for inf and NaN, and a sum never loses a NaN.
  FloatVector taint[kStepVectors];
  for (FloatVector& vector : taint) vector = hn::Zero(d);

  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    hn::Mask<Floats> positive[kStepVectors];
#pragma GCC unroll 32
    for (std::size_t v = 0; v < kStepVectors; ++v) {
      const FloatVector value = hn::LoadU(d, gradient + i + v * kVectorLanes);
      positive[v] = hn::Ge(value, hn::Zero(d));
      taint[v] = hn::Add(taint[v], hn::Mul(value, hn::Zero(d)));
    }
    store_step_bits(positive, bits + i / 8);
  }

  float lanes[kStep];
  for (std::size_t v = 0; v < kStepVectors; ++v) hn::StoreU(taint[v], d, lanes + v * kVectorLanes);
  for (std::size_t k = i; k < count; ++k) {
    if (k % 8 == 0) bits[k / 8] = 0;
    bits[k / 8] |= static_cast<std::uint8_t>(gradient[k] >= 0) << (k % 8);
    lanes[k - i] += gradient[k] * 0.0F;
  }
  return std::all_of(lanes, lanes + kStep, [](float lane) { return lane == 0; });
}

// Adds a, b and c bit by bit. The sum replaces a; the carry is returned.
template <class V>
HWY_INLINE V add_bits(V& a, V b, V c) {
  const V half = hn::Xor(a, b);
  const V carry = hn::Or(hn::And(a, b), hn::And(half, c));
  a = hn::Xor(half, c);
  return carry;
}

constexpr std::size_t kVoterGroup = 8;
constexpr std::size_t kMostPlanes = 64;

// Every bit position has a counter. Counters are stored as planes: plane p holds bit p of all of
// them. They start at 2^top - quorum, so a counter that has reached the quorum has a bit in plane
// `top`. A tree of full adders adds eight voters at a time, and only its carry goes on to higher
// planes.
template <class D>
void majority_of_vector(D d, std::span<const std::uint8_t* const> voters, std::size_t at,
                        std::uint8_t* outcome) {
  using V = hn::Vec<D>;
  const std::uint64_t quorum = (voters.size() + 1) / 2;
  const std::size_t top = std::max<std::size_t>(2, std::bit_width(quorum));
  const std::uint64_t offset = (std::uint64_t{1} << top) - quorum;

  V planes[kMostPlanes];
  for (std::size_t p = 0; p <= top; ++p) {
    planes[p] = hn::Set(d, static_cast<std::uint8_t>((offset >> p) & 1 ? 0xFF : 0));
  }
  for (std::size_t w = 0; w < voters.size(); w += kVoterGroup) {
    V votes[kVoterGroup];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kVoterGroup; ++k) {
      votes[k] = w + k < voters.size() ? hn::LoadU(d, voters[w + k] + at) : hn::Zero(d);
    }
    const V twos_a = add_bits(planes[0], votes[0], votes[1]);
    const V twos_b = add_bits(planes[0], votes[2], votes[3]);
    const V twos_c = add_bits(planes[0], votes[4], votes[5]);
    const V twos_d = add_bits(planes[0], votes[6], votes[7]);
    const V fours_a = add_bits(planes[1], twos_a, twos_b);
    const V fours_b = add_bits(planes[1], twos_c, twos_d);
    V carry = add_bits(planes[2], fours_a, fours_b);
    for (std::size_t p = 3; p <= top; ++p) {
      const V sum = hn::Xor(planes[p], carry);
      carry = hn::And(planes[p], carry);
      planes[p] = sum;
    }
  }
  hn::StoreU(planes[top], d, outcome + at);
}

void majority_of(std::span<const std::uint8_t* const> voters, std::span<std::uint8_t> outcome) {
  const hn::ScalableTag<std::uint8_t> d;
  const hn::CappedTag<std::uint8_t, 1> byte;
  std::size_t at = 0;
  for (; at + hn::Lanes(d) <= outcome.size(); at += hn::Lanes(d)) {
    majority_of_vector(d, voters, at, outcome.data());
  }
  for (; at < outcome.size(); ++at) majority_of_vector(byte, voters, at, outcome.data());
}

}  // namespace
}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {

HWY_EXPORT(pack);
HWY_EXPORT(majority_of);

bool pack_signs(std::span<const float> gradient, std::span<std::uint8_t> bits) {
  return HWY_DYNAMIC_DISPATCH(pack)(gradient.data(), gradient.size(), bits.data());
}

void majority(std::span<const std::uint8_t* const> voters, std::span<std::uint8_t> outcome) {
  HWY_DYNAMIC_DISPATCH(majority_of)(voters, outcome);
}

void expand_signs(std::span<const std::uint8_t> bits, float scale, std::span<float> result) {
  const SignPayload payload{bits.data(), scale};
  decode_signs({&payload, 1}, 1.0F, result);
}

}  // namespace gradwire::kernels
#endif
