#pragma once

// Golomb-Rice code of ascending entries, the body of a chunk of positions (see positions.h).
//
// An entry is a position, or with signs 2 * position + (1 if negative). A gap is the number of
// elements skipped since the entry before. With parameter k it is written as gap >> k zero bits, a
// one bit, the sign bit (with signs), and the k low bits of the gap, all from the least significant
// bit of each byte upwards. The sign is thus one more low bit, and one code serves both kinds.

#include <cstddef>
#include <cstdint>
#include <span>

namespace gradwire::wire {

inline constexpr unsigned kLargestRiceParameter = 30;

// The writer stores whole 64-bit words: it may touch this many bytes after the body.
inline constexpr std::size_t kRiceSlack = 8;

struct RicePlan {
  unsigned parameter;
  std::size_t body_bytes;
  bool ascending;  // false: the entries are not strictly ascending positions, nothing else is valid
};

// The cheapest of a few parameters around the one that suits the mean gap. Entries not empty;
// `base` is subtracted from every position.
RicePlan plan_rice(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs);

// Writes exactly plan.body_bytes (and may touch kRiceSlack more).
void write_rice(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs,
                const RicePlan& plan, std::byte* out);

// Fills `entries` from `body`. Returns nullptr, or what is wrong with the body: a position not
// below `length`, codes that end before the last entry, or bytes after it.
const char* read_rice(std::span<const std::byte> body, unsigned parameter, bool with_signs,
                      std::uint32_t length, std::span<std::uint32_t> entries);

}  // namespace gradwire::wire
