#pragma once

// Files that the command writes its results to. Where no file was named, nothing happens.

#include <string>

namespace gradwire {

// To be found out before the work, not after hours of it. Throws std::runtime_error.
void require_writable(const std::string& file);
void write_file(const std::string& file, const std::string& content);

}  // namespace gradwire
