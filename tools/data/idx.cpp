#include "data/idx.h"

#include <algorithm>
#include <memory>

#include "data/byte_source.h"
#include "data/gzip.h"
#include "data/image_statistics.h"

namespace gradwire::data {
namespace {

constexpr std::uint32_t kSide = 28;
constexpr std::size_t kImageBytes = std::size_t{kSide} * kSide;
constexpr std::uint32_t kClasses = 10;
constexpr std::uint32_t kUnsignedBytes = 0x0800;  // the magic number minus the number of dimensions
constexpr std::uint32_t kMostSamples = 1'000'000;

std::unique_ptr<ByteSource> open(const std::string& path) {
  const std::string packed = path + ".gz";
  if (file_exists(path)) return std::make_unique<FileSource>(path);
  if (file_exists(packed)) return std::make_unique<GzipSource>(packed);
  throw DataError(path, 0, "this file, or the same with .gz", "neither");
}

std::uint32_t take_number(ByteSource& source, const std::string& what) {
  const auto bytes = source.take(4, what);
  return std::uint32_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

void expect_number(ByteSource& source, std::uint32_t expected, const std::string& what) {
  const std::size_t at = source.offset();
  const std::uint32_t found = take_number(source, what);
  if (found != expected) {
    throw DataError(source.name(), at, what + " " + std::to_string(expected),
                    std::to_string(found));
  }
}

std::uint32_t take_count(ByteSource& source) {
  const std::size_t at = source.offset();
  const std::uint32_t count = take_number(source, "the number of samples");
  if (count < 1 || count > kMostSamples) {
    throw DataError(source.name(), at, "1 to " + std::to_string(kMostSamples) + " samples",
                    std::to_string(count));
  }
  return count;
}

std::vector<std::uint8_t> read_images(const std::string& path) {
  const auto source = open(path);
  expect_number(*source, kUnsignedBytes + 3, "the magic number");
  const std::size_t count = take_count(*source);
  expect_number(*source, kSide, "a height of");
  expect_number(*source, kSide, "a width of");
  auto pixels = source->take(count * kImageBytes, "pixels");
  source->expect_end();
  return pixels;
}

std::vector<std::uint8_t> read_labels(const std::string& path, std::size_t images) {
  const auto source = open(path);
  expect_number(*source, kUnsignedBytes + 1, "the magic number");
  expect_number(*source, static_cast<std::uint32_t>(images), "as many labels as images,");
  const std::size_t start = source->offset();
  auto labels = source->take(images, "labels");
  source->expect_end();
  const auto wrong = std::ranges::find_if(labels, [](auto label) { return label >= kClasses; });
  if (wrong != labels.end()) {
    throw DataError(source->name(), start + static_cast<std::size_t>(wrong - labels.begin()),
                    "a label from 0 to 9", std::to_string(*wrong));
  }
  return labels;
}

Part read_part(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  Part part;
  part.bytes = read_images(path + "-images-idx3-ubyte");
  part.samples = part.bytes.size() / kImageBytes;
  part.labels = read_labels(path + "-labels-idx1-ubyte", part.samples);
  return part;
}

}  // namespace

Dataset load_idx(const std::string& folder) {
  Dataset dataset{.kind = Kind::images,
                  .sample_shape = {1, kSide, kSide},
                  .classes = kClasses,
                  .mean = {},
                  .deviation = {},
                  .train = read_part(folder, "train"),
                  .test = read_part(folder, "t10k")};
  measure_channels(dataset);
  return dataset;
}

}  // namespace gradwire::data
