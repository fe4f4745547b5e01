// What the streaming loops share: the step they advance by, and vector masks as packed bits. On
// every target, element i is bit i % 8 of byte i / 8. This file is included once per SIMD target.
#if defined(GRADWIRE_KERNELS_STREAMING_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_KERNELS_STREAMING_STEP_INL_H_
#undef GRADWIRE_KERNELS_STREAMING_STEP_INL_H_
#else
#define GRADWIRE_KERNELS_STREAMING_STEP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The elements per step of a streaming loop, a multiple of every target's vector length. A sum that
// is kept in this many lanes has the same rounding on every target.
inline constexpr std::size_t kStep = 32;

using Floats = hn::CappedTag<float, 16>;
using FloatVector = hn::Vec<Floats>;
inline constexpr std::size_t kVectorLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kStepVectors = kStep / kVectorLanes;

// Fetches the step one page ahead, because the hardware's own prefetching ends at each page.
// Fetching past the end of an array is harmless.
HWY_INLINE void prefetch_page_ahead(const float* step) {
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kLine = 64;
  const char* const ahead = reinterpret_cast<const char*>(step) + kPage;
  for (std::size_t at = 0; at < kStep * sizeof(float); at += kLine) __builtin_prefetch(ahead + at);
}

// The masks of one step as one word: element i is bit i.
template <class Mask>
HWY_INLINE std::uint32_t step_bits(const Mask (&masks)[kStepVectors]) {
  std::uint32_t word = 0;
#pragma GCC unroll 32
  for (std::size_t v = 0; v < kStepVectors; ++v) {
    std::uint8_t part[8] = {};  // Highway may write 8 bytes
    hn::StoreMaskBits(Floats(), masks[v], part);
    const std::uint32_t lanes = part[0] | std::uint32_t{part[1]} << 8;
    word |= lanes << (v * kVectorLanes);
  }
  return word;
}

// The same as kStep / 8 bytes.
template <class Mask>
HWY_INLINE void store_step_bits(const Mask (&masks)[kStepVectors], std::uint8_t* bytes) {
  const std::uint32_t word = step_bits(masks);
  std::memcpy(bytes, &word, sizeof(word));
}

}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
