#include "wire/bytes.h"

namespace gradwire::wire {

WireError::WireError(const std::string& field, std::size_t offset, const std::string& expected,
                     const std::string& got)
    : std::runtime_error("[wire] " + field + " at byte " + std::to_string(offset) + ": expected " +
                         expected + ", got " + got),
      offset_(offset) {}

std::span<const std::byte> Reader::bytes(std::size_t count, const char* field) {
  const std::size_t available = bytes_.size() - position_;
  if (count > available) {
    throw WireError(field, offset(), std::to_string(count) + " bytes",
                    std::to_string(available) + " (truncated)");
  }
  const auto result = bytes_.subspan(position_, count);
  position_ += count;
  return result;
}

std::uint32_t Reader::varint(const char* field) {
  const std::size_t begin = offset();
  std::uint64_t value = 0;
  for (std::size_t length = 0; length < kLongestVarint; ++length) {
    const std::uint8_t byte = u8(field);
    value |= std::uint64_t{byte & 0x7FU} << (7 * length);
    if (byte & 0x80U) continue;
    if (byte == 0 && length > 0) {
      throw WireError(field, begin, "a varint in its shortest form", "a trailing zero byte");
    }
    if (value > UINT32_MAX) break;
    return static_cast<std::uint32_t>(value);
  }
  throw WireError(field, begin, "a varint below 2^32", "a larger one");
}

void Writer::varint(std::uint32_t value) {
  for (; value >= 0x80U; value >>= 7) u8(static_cast<std::uint8_t>(value | 0x80U));
  u8(static_cast<std::uint8_t>(value));
}

std::span<std::byte> Writer::reserve(std::size_t count) {
  if (count > buffer_.size() - size_) {
    throw std::length_error("[wire] buffer too small: expected room for " +
                            std::to_string(size_ + count) + " bytes, got " +
                            std::to_string(buffer_.size()));
  }
  const auto result = buffer_.subspan(size_, count);
  size_ += count;
  return result;
}

}  // namespace gradwire::wire
