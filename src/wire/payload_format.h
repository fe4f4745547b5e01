#pragma once

// What reading and writing payloads share.

#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/bytes.h"

namespace gradwire::wire {

inline constexpr std::uint32_t payload_magic = 0x50575247;  // the bytes "GRWP"
inline constexpr std::uint8_t payload_version = 1;

inline constexpr std::uint8_t header_non_finite = 0x01;

inline constexpr std::uint8_t record_present = 0x00;
inline constexpr std::uint8_t record_abstains = 0x01;
inline constexpr std::uint8_t record_non_finite = 0x02;

inline void expect(std::uint64_t got, std::uint64_t expected, const char* field,
                   std::size_t offset) {
  if (got != expected) {
    throw WireError(field, offset, std::to_string(expected), std::to_string(got));
  }
}

}  // namespace gradwire::wire
