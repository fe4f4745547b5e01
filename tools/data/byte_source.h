#pragma once

// Files that are read from front to back. Memory grows with the bytes that arrive: a header that
// promises too many cannot exhaust it.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gradwire::data {

// std::filesystem::exists may throw; this does not.
bool file_exists(const std::string& path);

class ByteSource {
 public:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  const std::string& name() const { return name_; }  // for messages
  std::size_t offset() const { return offset_; }     // of the next byte

  // Takes exactly `count` bytes. Throws a DataError that calls them `what` if there are fewer.
  std::vector<std::uint8_t> take(std::size_t count, const std::string& what);
  // Takes all that are left. Throws a DataError if these are more than `limit`.
  std::vector<std::uint8_t> take_rest(std::size_t limit);
  // Throws a DataError if anything is left.
  void expect_end() { take_rest(0); }

 protected:
  // Fills `target`, or a part of it if fewer bytes are left, and returns how many it wrote.
  virtual std::size_t read(std::span<std::uint8_t> target) = 0;

 private:
  std::vector<std::uint8_t> take_up_to(std::size_t count);

  std::string name_;
  std::size_t offset_ = 0;
};

// The bytes of a file, unchanged.
class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path);
  std::size_t read(std::span<std::uint8_t> target) override;

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace gradwire::data
