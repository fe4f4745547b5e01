#include "data/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "data/data_error.h"

namespace gradwire::data {
namespace {

constexpr std::size_t kFirstStep = 1 << 16;

std::FILE* open(const std::string& path) {
  std::error_code ignored;
  // Reading from a pipe would block, and a folder can be opened but not read.
  if (file_exists(path) && !std::filesystem::is_regular_file(path, ignored)) {
    throw DataError(path, 0, "a file", "something else of that name");
  }
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw DataError(path, 0, "a file to read", std::strerror(errno));
  return file;
}

}  // namespace

bool file_exists(const std::string& path) {
  std::error_code means_no;
  return std::filesystem::exists(path, means_no);
}

std::vector<std::uint8_t> ByteSource::take_up_to(std::size_t count) {
  std::vector<std::uint8_t> bytes;
  std::size_t got = 0;
  do {
    bytes.resize(std::min(count, got + std::max(got, kFirstStep)));
    got += read(std::span(bytes).subspan(got));
  } while (got == bytes.size() && got < count);
  bytes.resize(got);
  offset_ += got;
  return bytes;
}

std::vector<std::uint8_t> ByteSource::take(std::size_t count, const std::string& what) {
  const std::size_t start = offset_;
  std::vector<std::uint8_t> bytes = take_up_to(count);
  if (bytes.size() < count) {
    throw DataError(
        name_, offset_,
        std::to_string(count) + " bytes of " + what + " from byte " + std::to_string(start) + " on",
        "the end after " + std::to_string(bytes.size()));
  }
  return bytes;
}

std::vector<std::uint8_t> ByteSource::take_rest(std::size_t limit) {
  const std::size_t start = offset_;
  std::vector<std::uint8_t> bytes = take_up_to(limit + 1);
  if (bytes.size() > limit) throw DataError(name_, start + limit, "the end", "more bytes");
  return bytes;
}

FileSource::FileSource(const std::string& path)
    : ByteSource(path), file_(open(path), std::fclose) {}

std::size_t FileSource::read(std::span<std::uint8_t> target) {
  const std::size_t got = std::fread(target.data(), 1, target.size(), file_.get());
  if (std::ferror(file_.get()) != 0) {
    throw DataError(name(), static_cast<std::size_t>(std::ftell(file_.get())), "a readable file",
                    std::strerror(errno));
  }
  return got;
}

}  // namespace gradwire::data
