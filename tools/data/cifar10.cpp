#include "data/cifar10.h"

#include <span>

#include "data/byte_source.h"
#include "data/image_statistics.h"

namespace gradwire::data {
namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kImageBytes;  // the label comes first
constexpr std::size_t kMostRecords = 10'000;
constexpr std::uint8_t kClasses = 10;

std::vector<std::uint8_t> read_records(const std::string& path) {
  auto records = FileSource(path).take_rest(kMostRecords * kRecordBytes);
  const std::size_t rest = records.size() % kRecordBytes;
  if (records.empty() || rest != 0) {
    throw DataError(path, records.size(), "records of " + std::to_string(kRecordBytes) + " bytes",
                    "the end after " + std::to_string(rest) + " bytes of one");
  }
  return records;
}

void append_file(const std::string& path, Part& part) {
  const std::vector<std::uint8_t> records = read_records(path);
  part.bytes.reserve(part.bytes.size() + records.size());
  for (std::size_t at = 0; at < records.size(); at += kRecordBytes) {
    const std::uint8_t label = records[at];
    if (label >= kClasses) {
      throw DataError(path, at, "a label from 0 to 9", std::to_string(label));
    }
    const auto pixels = std::span(records).subspan(at + 1, kImageBytes);
    part.labels.push_back(label);
    part.bytes.insert(part.bytes.end(), pixels.begin(), pixels.end());
    ++part.samples;
  }
}

Part read_batches(const std::string& folder) {
  Part part;
  for (int batch = 1; batch <= 5; ++batch) {
    const std::string path = folder + "/data_batch_" + std::to_string(batch) + ".bin";
    if (file_exists(path)) append_file(path, part);
  }
  if (part.samples == 0) {
    throw DataError(folder + "/data_batch_1.bin", 0, "at least one of data_batch_1.bin to _5.bin",
                    "none");
  }
  return part;
}

}  // namespace

Dataset load_cifar10(const std::string& folder) {
  Dataset dataset{.kind = Kind::images,
                  .sample_shape = {3, 32, 32},
                  .classes = kClasses,
                  .mean = {},
                  .deviation = {},
                  .train = read_batches(folder),
                  .test = {}};
  append_file(folder + "/test_batch.bin", dataset.test);
  measure_channels(dataset);
  return dataset;
}

}  // namespace gradwire::data
