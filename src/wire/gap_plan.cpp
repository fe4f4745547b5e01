// Decides which code a chunk gets.

#include <algorithm>
#include <array>
#include <bit>

#include "wire/gap_code.h"

namespace gradwire::wire {
namespace {

// One pass over the entries finds the cost of this many parameters.
constexpr unsigned kCandidates = 4;

// Exponential Golomb is considered if at least one gap in this many is small: below a power of two
// that is at most an eighth of the mean (or 1). Of geometric gaps, for which Rice is better, at
// most one in eight is small (or every gap of 0). Of clustered gaps every third or more is.
constexpr std::size_t kClusteredOneIn = 4;

struct Choice {
  unsigned parameter;
  std::uint64_t bits;
};

// The cheapest of the parameters from `first` to `last`, given the number of zero bits that each
// needs and the cost of a zero: one bit, or two if the tail grows with the zeros.
Choice cheapest(unsigned first, unsigned last, const std::array<std::uint32_t, kCandidates>& zeros,
                unsigned bits_per_zero, std::uint64_t count, unsigned sign_bits) {
  Choice best{first, UINT64_MAX};
  for (unsigned k = first; k <= last; ++k) {
    const std::uint64_t bits =
        bits_per_zero * std::uint64_t{zeros[k - first]} + count * (1 + sign_bits + k);
    if (bits < best.bits) best = {k, bits};
  }
  return best;
}

// floor(log2 value) + kExponentBias for 0 < value < 2^31. It uses the exponent of a float, so that
// loops can be vectorised on any machine. Clearing the bit after the highest keeps the conversion
// from rounding up to the next power.
constexpr std::uint32_t kExponentBias = 127;
std::uint32_t biased_log2(std::uint32_t value) {
  constexpr unsigned kMantissaBits = 23;
  const auto lowered = static_cast<std::int32_t>(value & ~(value >> 1));
  return std::bit_cast<std::uint32_t>(static_cast<float>(lowered)) >> kMantissaBits;
}

// The cheapest of the parameters from `first` on. The entries must ascend.
Choice cheapest_exp_golomb(std::span<const std::uint32_t> entries, std::uint32_t base,
                           unsigned sign_bits, unsigned first) {
  const std::uint32_t add0 = std::uint32_t{1} << first;
  const std::uint32_t add1 = add0 << 1, add2 = add0 << 2, add3 = add0 << 3;
  const std::uint32_t gap = (entries.front() >> sign_bits) - base;
  std::uint32_t logs0 = biased_log2(gap + add0);
  std::uint32_t logs1 = biased_log2(gap + add1);
  std::uint32_t logs2 = biased_log2(gap + add2);
  std::uint32_t logs3 = biased_log2(gap + add3);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::uint32_t next = (entries[i] >> sign_bits) - (entries[i - 1] >> sign_bits) - 1;
    logs0 += biased_log2(next + add0);
    logs1 += biased_log2(next + add1);
    logs2 += biased_log2(next + add2);
    logs3 += biased_log2(next + add3);
  }
  // This is exact even if a sum has wrapped around, as there are fewer zeros than elements.
  std::array<std::uint32_t, kCandidates> zeros{logs0, logs1, logs2, logs3};
  for (unsigned c = 0; c < kCandidates; ++c) {
    zeros[c] -= static_cast<std::uint32_t>(entries.size()) * (kExponentBias + first + c);
  }
  return cheapest(first, first + kCandidates - 1, zeros, 2, entries.size(), sign_bits);
}

}  // namespace

GapPlan plan_gaps(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs) {
  const unsigned sign_bits = with_signs ? 1 : 0;
  const std::size_t count = entries.size();
  const std::uint32_t last = (entries.back() >> sign_bits) - base;
  // floor(log2(mean gap + 1)) is the best parameter for a geometric distribution. A smaller one is
  // best for clustered positions.
  const std::uint64_t spanned = last + std::uint64_t{1};
  const std::uint64_t gaps = spanned - std::min<std::uint64_t>(count, spanned);
  const auto largest = std::min<unsigned>(
      static_cast<unsigned>(std::bit_width(gaps / count + 1)) - 1, kLargestGapParameter);
  const unsigned smallest = largest - std::min(largest, kCandidates - 1);

  // Zero bits of each candidate. They are separate variables, so that the loop is vectorised.
  const std::uint32_t first = (entries.front() >> sign_bits) - base;
  std::uint32_t zeros0 = first >> smallest;
  std::uint32_t zeros1 = zeros0 >> 1, zeros2 = zeros0 >> 2, zeros3 = zeros0 >> 3;
  std::uint32_t all_bits = first;
  std::uint32_t small_gaps = zeros0 == 0 ? 1 : 0;
  for (std::size_t i = 1; i < count; ++i) {
    const std::uint32_t position = entries[i] >> sign_bits;
    const std::uint32_t gap = position - (entries[i - 1] >> sign_bits) - 1;
    all_bits |= gap | (position - base);
    const std::uint32_t zeros = gap >> smallest;
    zeros0 += zeros;
    zeros1 += zeros >> 1;
    zeros2 += zeros >> 2;
    zeros3 += zeros >> 3;
    small_gaps += zeros == 0 ? 1 : 0;
  }
  // Entries that do not ascend give a gap that wraps around to at least 2^31.
  if (all_bits >> 31) return {GapCode::rice, 0, 0, false};

  GapCode code = GapCode::rice;
  Choice best = cheapest(smallest, largest, {zeros0, zeros1, zeros2, zeros3}, 1, count, sign_bits);
  if (kClusteredOneIn * std::uint64_t{small_gaps} >= count) {
    // Begins with the parameters for the closest clusters and goes on as long as larger ones may be
    // cheaper.
    for (unsigned k = 0; k + kCandidates - 1 <= kLargestGapParameter; k += kCandidates) {
      const Choice choice = cheapest_exp_golomb(entries, base, sign_bits, k);
      if (choice.bits < best.bits) {
        best = choice;
        code = GapCode::exp_golomb;
      }
      if (choice.parameter != k + kCandidates - 1) break;
    }
  }
  return {code, best.parameter, static_cast<std::size_t>((best.bits + 7) / 8), true};
}

}  // namespace gradwire::wire
