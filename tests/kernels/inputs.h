#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace gradwire::kernels {

using FloatLimits = std::numeric_limits<float>;

// Sizes of nothing, of single elements, and around a vector, a step and a block.
inline constexpr std::size_t kSizes[] = {
    0,  1,  2,   3,    7,    8,    9,    15,   16,   17,   31,   32,   33,    63,
    64, 65, 100, 1000, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 10001, 40000};

// Normally distributed values, among them exact zeros of both signs, denormals and equal
// magnitudes.
inline std::vector<float> gradient_like(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) {
    switch (random() % 16) {
      case 0:
        value = 0.0F;
        break;
      case 1:
        value = -0.0F;
        break;
      case 2:
        value = FloatLimits::denorm_min() * static_cast<float>(random() % 9);
        break;
      case 3:
        value = (random() & 1) != 0 ? 0.75F : -0.75F;
        break;
      default:
        value = normal(random);
    }
  }
  return values;
}

// What a comparison must see to tell -0 from 0 and to find NaN equal to itself.
inline std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// A copy that begins one element after an aligned address.
template <class T>
class Unaligned {
 public:
  explicit Unaligned(std::span<const T> values) : storage_(values.size() + 1) {
    std::copy(values.begin(), values.end(), storage_.begin() + 1);
  }
  std::span<T> span() { return std::span<T>(storage_).subspan(1); }

 private:
  std::vector<T> storage_;
};

}  // namespace gradwire::kernels
