#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace gradwire::data {

// A data set is missing, or it is not in the expected format.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // "FILE, byte OFFSET: expected EXPECTED, found FOUND". The offset is 0 if no single byte is
  // wrong.
  DataError(const std::string& file, std::size_t offset, const std::string& expected,
            const std::string& found);
};

}  // namespace gradwire::data
