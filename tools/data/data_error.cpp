#include "data/data_error.h"

namespace gradwire::data {

DataError::DataError(const std::string& file, std::size_t offset, const std::string& expected,
                     const std::string& found)
    : std::runtime_error(file + ", byte " + std::to_string(offset) + ": expected " + expected +
                         ", found " + found) {}

}  // namespace gradwire::data
