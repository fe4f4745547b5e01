#pragma once

// Files read from front to back. Memory grows with the bytes that arrive, never by what a header
// promises.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gradwire::data {

// Unlike std::filesystem's, never throws.
bool file_exists(const std::string& path);

class ByteSource {
 public:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  // For messages.
  const std::string& name() const { return name_; }
  // Of the next byte.
  std::size_t offset() const { return offset_; }

  // Exactly `count` bytes; `what` names them in the message of the DataError if there are fewer.
  std::vector<std::uint8_t> take(std::size_t count, const std::string& what);
  // All there are, but more than `limit` are a DataError.
  std::vector<std::uint8_t> take_rest(std::size_t limit);
  // Anything left is a DataError.
  void expect_end() { take_rest(0); }

 protected:
  // Fills `target`, or as much of it as there are bytes left, and says how much.
  virtual std::size_t read(std::span<std::uint8_t> target) = 0;

 private:
  std::vector<std::uint8_t> take_up_to(std::size_t count);

  std::string name_;
  std::size_t offset_ = 0;
};

// A file as it is.
class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path);
  std::size_t read(std::span<std::uint8_t> target) override;

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace gradwire::data
