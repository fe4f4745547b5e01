#include "cli/output_file.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace gradwire {

void require_writable(const std::string& file) {
  if (file.empty()) return;
  const bool is_new = !std::filesystem::exists(file);
  const std::ofstream stream(file, std::ios::app);  // keeps the content of the file
  if (!stream) throw std::runtime_error("cannot write " + file);
  if (is_new) std::filesystem::remove(file);  // an empty file could be taken for results
}

void write_file(const std::string& file, const std::string& content) {
  if (file.empty()) return;
  std::ofstream stream(file);
  stream << content;
  if (!stream.flush()) throw std::runtime_error("cannot write " + file);
}

}  // namespace gradwire
