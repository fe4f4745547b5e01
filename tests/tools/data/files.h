#pragma once

// Files that tests write, and what load() says about them.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace gradwire::data {

using Bytes = std::vector<std::uint8_t>;

inline Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

inline Bytes prefix(const Bytes& bytes, std::size_t length) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)};
}

inline Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// Every test has a folder of its own, which is removed afterwards.
class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "gradwire-data-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  // Cuts the file to every shorter length in turn and calls check(length). Cutting is a hundred
  // times as fast as writing the file again.
  template <typename Check>
  void at_every_truncation(const std::string& name, Check check) const {
    for (std::size_t length = std::filesystem::file_size(path(name)); length-- > 0;) {
      std::filesystem::resize_file(path(name), length);
      check(length);
    }
  }

 private:
  std::string folder_;
};

// The message of the error that load() throws, or "accepted" if it throws none.
inline std::string refusal_of(const std::string& spec) {
  try {
    load(spec);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace gradwire::data
