#pragma once

// Two codes of ascending entries, the body of a chunk of positions (see positions.h).
//
// An entry is a position, or with signs 2 * position + (1 if negative). A gap is the number of
// elements skipped since the entry before. Both codes write it as some zero bits, a one bit, the
// sign bit (with signs) and a tail, all from the least significant bit of each byte upwards:
// - Rice with parameter k: gap >> k zeros; the tail is the k low bits of the gap. Best where
//   entries are independent of each other, so that gaps are geometric.
// - Exponential Golomb with parameter k: with x = gap + 2^k and L = floor(log2 x), L - k zeros; the
//   tail is the L low bits of x. Twice the gap costs two bits more: for clusters far apart.
// In both the sign is as good as one more low bit of the gap, and one code serves both kinds of
// entry: with signs, k + 1 does for 2 * gap + sign what k does for gap.

#include <cstddef>
#include <cstdint>
#include <span>

namespace gradwire::wire {

enum class GapCode : std::uint8_t { rice, exp_golomb };

inline constexpr unsigned kLargestGapParameter = 30;

// The writer stores whole 64-bit words: it may touch this many bytes after the body.
inline constexpr std::size_t kGapCodeSlack = 8;

struct GapPlan {
  GapCode code;
  unsigned parameter;
  std::size_t body_bytes;
  bool ascending;  // false: the entries are not strictly ascending positions, nothing else is valid
};

// The cheapest of some codes and parameters that suit the mean gap and how clustered the entries
// are. Entries not empty; `base` is subtracted from every position.
GapPlan plan_gaps(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs);

// Writes exactly plan.body_bytes (and may touch kGapCodeSlack more).
void write_gaps(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs,
                const GapPlan& plan, std::byte* out);

// Fills `entries` from `body`. Returns nullptr, or what is wrong with the body: a position not
// below `length`, codes that end before the last entry, or bytes after it.
const char* read_gaps(std::span<const std::byte> body, GapCode code, unsigned parameter,
                      bool with_signs, std::uint32_t length, std::span<std::uint32_t> entries);

}  // namespace gradwire::wire
