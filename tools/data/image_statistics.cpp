#include "data/image_statistics.h"

#include <cmath>
#include <span>

namespace gradwire::data {
namespace {

// Sums of integers are exact, whatever the order of summation.
struct Sums {
  std::uint64_t values = 0;
  std::uint64_t squares = 0;

  void add(std::span<const std::uint8_t> pixels) {
    // With 32 bits the compiler adds twice as many numbers at once. That suffices for a plane: it
    // has far fewer than 65,000 pixels.
    std::uint32_t plane_values = 0;
    std::uint32_t plane_squares = 0;
    for (const std::uint32_t pixel : pixels) {
      plane_values += pixel;
      plane_squares += pixel * pixel;
    }
    values += plane_values;
    squares += plane_squares;
  }
};

}  // namespace

void measure_channels(Dataset& images) {
  const auto channels = static_cast<std::size_t>(images.sample_shape.at(0));
  const auto plane =
      static_cast<std::size_t>(images.sample_shape.at(1) * images.sample_shape.at(2));
  std::vector<Sums> sums(channels);
  const std::span<const std::uint8_t> pixels(images.train.bytes);
  for (std::size_t i = 0; i < images.train.samples * channels; ++i) {
    sums[i % channels].add(pixels.subspan(i * plane, plane));
  }
  const auto count = static_cast<double>(images.train.samples * plane);
  for (const Sums& sum : sums) {
    const double mean = static_cast<double>(sum.values) / count;
    const double variance = static_cast<double>(sum.squares) / count - mean * mean;
    images.mean.push_back(static_cast<float>(mean / 255));
    images.deviation.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0F);
  }
}

}  // namespace gradwire::data
