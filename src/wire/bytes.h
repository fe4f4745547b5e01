#pragma once

// Reading and writing little-endian bytes, with checks of the bounds.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace gradwire::wire {

// Bytes that arrived are not what was expected. A peer or the network has failed. Mistakes of the
// caller are std::invalid_argument or std::logic_error.
class WireError : public std::runtime_error {
 public:
  WireError(const std::string& field, std::size_t offset, const std::string& expected,
            const std::string& got);

  // The offset of the wrong field, in bytes from the start of the payload.
  std::size_t offset() const { return offset_; }

 private:
  std::size_t offset_;
};

namespace detail {

template <typename T>
T to_little_endian(T value) {
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      swapped = static_cast<T>((swapped << 8) | ((value >> (8 * i)) & 0xFF));
    }
    return swapped;
  }
  return value;
}

}  // namespace detail

// Does not check: the caller must make sure that sizeof(T) bytes are there.
template <typename T>
T load_little_endian(const std::byte* from) {
  static_assert(std::is_unsigned_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return detail::to_little_endian(value);
}

template <typename T>
void store_little_endian(T value, std::byte* to) {
  static_assert(std::is_unsigned_v<T>);
  value = detail::to_little_endian(value);
  std::memcpy(to, &value, sizeof(T));
}

// Reads fields one after the other. `field` names the field in an error's text. `start` is the
// offset of `bytes` in the whole payload, for an error's offset.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes, std::size_t start = 0)
      : bytes_(bytes), start_(start) {}

  std::uint8_t u8(const char* field) { return number<std::uint8_t>(field); }
  std::uint16_t u16(const char* field) { return number<std::uint16_t>(field); }
  std::uint32_t u32(const char* field) { return number<std::uint32_t>(field); }
  std::uint64_t u64(const char* field) { return number<std::uint64_t>(field); }
  float f32(const char* field) { return std::bit_cast<float>(u32(field)); }
  // LEB128. Only the shortest form is accepted, so that equal content means equal bytes.
  std::uint32_t varint(const char* field);
  std::span<const std::byte> bytes(std::size_t count, const char* field);

  std::span<const std::byte> rest() const { return bytes_.subspan(position_); }
  std::size_t offset() const { return start_ + position_; }

 private:
  template <typename T>
  T number(const char* field) {
    return load_little_endian<T>(bytes(sizeof(T), field).data());
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::size_t start_;
};

// Writes fields one after the other into the caller's buffer. If the buffer is too small, which is
// the caller's mistake, it throws std::length_error and never writes beyond it.
class Writer {
 public:
  explicit Writer(std::span<std::byte> buffer) : buffer_(buffer) {}

  void u8(std::uint8_t value) { number(value); }
  void u16(std::uint16_t value) { number(value); }
  void u32(std::uint32_t value) { number(value); }
  void u64(std::uint64_t value) { number(value); }
  void f32(float value) { number(std::bit_cast<std::uint32_t>(value)); }
  void varint(std::uint32_t value);
  // Returns the next `count` bytes, which the caller fills.
  std::span<std::byte> reserve(std::size_t count);

  std::span<std::byte> rest() const { return buffer_.subspan(size_); }
  std::span<std::byte> written() const { return buffer_.first(size_); }
  std::size_t size() const { return size_; }
  void rewind(std::size_t size) { size_ = size; }

 private:
  template <typename T>
  void number(T value) {
    store_little_endian(value, reserve(sizeof(T)).data());
  }

  std::span<std::byte> buffer_;
  std::size_t size_ = 0;
};

inline constexpr std::size_t kLongestVarint = 5;

constexpr std::size_t varint_size(std::uint32_t value) {
  return value == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(value)) + 6) / 7;
}

}  // namespace gradwire::wire
