#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace gradwire::data {

// A data set that is not there or not what it should be.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // "FILE, byte OFFSET: expected EXPECTED, found FOUND"
  DataError(const std::string& file, std::size_t offset, const std::string& expected,
            const std::string& found);

  // Of what is wrong, from the start of the file; 0 where no single byte is to blame.
  std::size_t offset() const { return offset_; }

 private:
  std::size_t offset_ = 0;
};

}  // namespace gradwire::data
