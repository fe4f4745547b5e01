#include "data/wav.h"

#include <optional>
#include <span>

#include "data/byte_source.h"
#include "data/data_error.h"

namespace gradwire::data {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kRiffHeader = 12;
constexpr std::size_t kChunkHeader = 8;
constexpr std::size_t kFormatBytes = 16;

struct Chunk {
  std::size_t begin;  // the offset of its content
  std::size_t size;
};

// The bytes of a file. Call `need` before reading: the other functions do not check the size.
class WavBytes {
 public:
  explicit WavBytes(const std::string& path)
      : path_(path), bytes_(FileSource(path).take_rest(kMostBytes)) {}

  std::size_t size() const { return bytes_.size(); }

  [[noreturn]] void refuse(std::size_t at, const std::string& expected,
                           const std::string& found) const {
    throw DataError(path_, at, expected, found);
  }
  void need(std::size_t at, std::size_t count, const std::string& what) const {
    if (at + count > size()) refuse(size(), what + " at byte " + std::to_string(at), "the end");
  }
  std::string name(std::size_t at) const {
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(at),
            bytes_.begin() + static_cast<std::ptrdiff_t>(at + 4)};
  }
  std::uint32_t number(std::size_t at, int width) const {
    std::uint32_t value = 0;
    for (int i = width - 1; i >= 0; --i) value = value << 8 | bytes_[at + static_cast<size_t>(i)];
    return value;
  }
  void expect_name(std::size_t at, const std::string& expected) const {
    if (name(at) != expected) refuse(at, "\"" + expected + "\"", "other bytes");
  }
  void expect(std::size_t at, int width, std::uint32_t expected, const std::string& what) const {
    const std::uint32_t found = number(at, width);
    if (found != expected) {
      refuse(at, what + " " + std::to_string(expected), std::to_string(found));
    }
  }

 private:
  std::string path_;
  std::vector<std::uint8_t> bytes_;
};

void check_riff_header(const WavBytes& file) {
  file.need(0, kRiffHeader, "a RIFF header");
  file.expect_name(0, "RIFF");
  file.expect(4, 4, static_cast<std::uint32_t>(file.size() - 8), "the size of what follows,");
  file.expect_name(8, "WAVE");
}

Chunk chunk_at(const WavBytes& file, std::size_t at) {
  file.need(at, kChunkHeader, "the header of a chunk");
  const Chunk chunk{at + kChunkHeader, file.number(at + 4, 4)};
  const std::size_t left = file.size() - chunk.begin;
  if (chunk.size > left) {
    file.refuse(at + 4, "a chunk of at most " + std::to_string(left) + " bytes",
                std::to_string(chunk.size));
  }
  return chunk;
}

void check_format(const WavBytes& file, const Chunk& chunk) {
  if (chunk.size < kFormatBytes) {
    file.refuse(chunk.begin - 4, "a format of at least " + std::to_string(kFormatBytes) + " bytes",
                std::to_string(chunk.size));
  }
  file.expect(chunk.begin, 2, 1, "the format of plain PCM,");
  file.expect(chunk.begin + 2, 2, 1, "a number of channels of");
  file.expect(chunk.begin + 4, 4, 8000, "a sample rate of");
  file.expect(chunk.begin + 14, 2, 16, "a sample width in bits of");
}

void keep_only(const WavBytes& file, const Chunk& chunk, std::optional<Chunk>& kept) {
  if (kept) file.refuse(chunk.begin - kChunkHeader, "one chunk of a kind", "a second");
  kept = chunk;
}

std::vector<std::int16_t> samples_of(const WavBytes& file, const Chunk& data) {
  if (data.size % 2 != 0) {
    file.refuse(data.begin - 4, "an even number of bytes", std::to_string(data.size));
  }
  std::vector<std::int16_t> samples(data.size / 2);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<std::int16_t>(file.number(data.begin + 2 * i, 2));
  }
  return samples;
}

}  // namespace

std::vector<std::int16_t> read_wav(const std::string& path) {
  const WavBytes file(path);
  check_riff_header(file);
  std::optional<Chunk> format;
  std::optional<Chunk> data;
  for (std::size_t at = kRiffHeader; at < file.size();) {
    const Chunk chunk = chunk_at(file, at);
    if (file.name(at) == "fmt ") keep_only(file, chunk, format);
    if (file.name(at) == "data") keep_only(file, chunk, data);
    at = chunk.begin + chunk.size + chunk.size % 2;  // chunks begin at even offsets
  }
  if (!format) file.refuse(file.size(), "a chunk \"fmt \"", "the end");
  if (!data) file.refuse(file.size(), "a chunk \"data\"", "the end");
  check_format(file, *format);
  return samples_of(file, *data);
}

}  // namespace gradwire::data
