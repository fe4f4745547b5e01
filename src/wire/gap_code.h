#pragma once

// Two codes for ascending entries, which make up the body of a chunk of positions (see
// positions.h).
//
// An entry is a position, or with signs 2 * position + (1 if negative). A gap is the number of
// elements skipped since the entry before. Both codes write it as some zero bits, a one bit, the
// sign bit (with signs) and a tail, beginning with the least significant bit of each byte:
// - Rice with parameter k has gap >> k zeros, and the tail is the k low bits of the gap. It is best
//   where entries are independent of each other, so that gaps are geometric.
// - Exponential Golomb with parameter k, with x = gap + 2^k and L = floor(log2 x), has L - k zeros,
//   and the tail is the L low bits of x. Twice the gap costs two bits more, so it is best for
//   clusters that are far apart.
// In both, the sign is like one more low bit of the gap. So one code serves both kinds of entry:
// with signs, k + 1 does for 2 * gap + sign what k does for gap.

#include <cstddef>
#include <cstdint>
#include <span>

namespace gradwire::wire {

enum class GapCode : std::uint8_t { rice, exp_golomb };

inline constexpr unsigned kLargestGapParameter = 30;

// The writer stores whole 64-bit words, so it may write this many bytes after the body.
inline constexpr std::size_t kGapCodeSlack = 8;

struct GapPlan {
  GapCode code;
  unsigned parameter;
  std::size_t body_bytes;
  bool ascending;  // whether entries are strictly ascending positions; if not, ignore the rest
};

// Finds the cheapest of some codes and parameters, which depend on the mean gap and on how
// clustered the entries are. There must be at least one entry. `base` is subtracted from every
// position.
GapPlan plan_gaps(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs);

// Writes exactly plan.body_bytes bytes, and perhaps kGapCodeSlack meaningless ones after them.
void write_gaps(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs,
                const GapPlan& plan, std::byte* out);

// Fills `entries` from `body`. Returns nullptr, or a text that says what is wrong with the body: a
// position is not below `length`, the codes end before the last entry, or bytes follow it.
const char* read_gaps(std::span<const std::byte> body, GapCode code, unsigned parameter,
                      bool with_signs, std::uint32_t length, std::span<std::uint32_t> entries);

}  // namespace gradwire::wire
