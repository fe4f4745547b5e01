#pragma once

// Files that the command writes its results to. If the name is empty, nothing happens.

#include <string>

namespace gradwire {

// Checks before the work begins whether the file can be written: after hours of work it would be
// too late. Throws std::runtime_error.
void require_writable(const std::string& file);
void write_file(const std::string& file, const std::string& content);

}  // namespace gradwire
