#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace gradwire::fuzz {

// What a fuzz target finds wrong ends the process: that is how a fuzzer notices.
inline void require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: violated: %s\n", rule);
  std::abort();
}

// Turns arbitrary bytes into structured input; past the end it gives zeros.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const std::byte*>(data), size) {}

  template <typename T>
  T number() {
    T value{};
    const std::size_t available = rest_.size() < sizeof(T) ? rest_.size() : sizeof(T);
    if (available > 0) std::memcpy(&value, rest_.data(), available);
    rest_ = rest_.subspan(available);
    return value;
  }
  // In [low, high].
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + number<std::uint16_t>() % (high - low + 1);
  }
  bool coin() { return number<std::uint8_t>() % 2 != 0; }
  bool empty() const { return rest_.empty(); }
  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace gradwire::fuzz
