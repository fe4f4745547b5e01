#pragma once

// What the reader and the writer of payloads share.

#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/bytes.h"

namespace gradwire::wire {

inline constexpr std::uint32_t kPayloadMagic = 0x50575247;  // the bytes "GRWP"
inline constexpr std::uint8_t kPayloadVersion = 1;

inline constexpr std::uint8_t kHeaderNonFinite = 0x01;

inline constexpr std::uint8_t kRecordPresent = 0x00;
inline constexpr std::uint8_t kRecordAbstains = 0x01;
inline constexpr std::uint8_t kRecordNonFinite = 0x02;

inline void expect(std::uint64_t got, std::uint64_t expected, const char* field,
                   std::size_t offset) {
  if (got != expected) {
    throw WireError(field, offset, std::to_string(expected), std::to_string(got));
  }
}

}  // namespace gradwire::wire
