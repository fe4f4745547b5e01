// Runs a fuzz target without a fuzzer: every file named, or in a directory named, then a fixed
// number of mutations of them from a fixed seed.
//   fuzz_<target> [--mutations=N] [file or directory]...

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
namespace fs = std::filesystem;

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add_inputs(const fs::path& path, std::vector<Bytes>& inputs) {
  if (!fs::is_directory(path)) {
    inputs.push_back(read_file(path));
    return;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // the same order on every file system
  for (const auto& file : files) inputs.push_back(read_file(file));
}

std::size_t below(std::mt19937& random, std::size_t limit) { return random() % limit; }

void mutate(Bytes& bytes, const Bytes& other, std::mt19937& random) {
  switch (below(random, 6)) {
    case 0:
      if (!bytes.empty()) bytes[below(random, bytes.size())] ^= 1U << below(random, 8);
      break;
    case 1:
      if (!bytes.empty()) bytes[below(random, bytes.size())] = static_cast<std::uint8_t>(random());
      break;
    case 2:
      bytes.resize(below(random, bytes.size() + 1));
      break;
    case 3:
      for (std::size_t i = below(random, 32); i > 0; --i) {
        bytes.push_back(static_cast<std::uint8_t>(random()));
      }
      break;
    case 4: {
      const std::size_t at = below(random, bytes.size() + 1);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   static_cast<std::uint8_t>(random()));
      break;
    }
    default:
      bytes.resize(below(random, bytes.size() + 1));
      bytes.insert(bytes.end(),
                   other.begin() + static_cast<std::ptrdiff_t>(below(random, other.size() + 1)),
                   other.end());
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view option = "--mutations=";
  std::size_t mutations = 0;
  std::vector<Bytes> inputs{{}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(option)) {
      mutations = std::strtoul(argv[i] + option.size(), nullptr, 10);
    } else {
      add_inputs(argument, inputs);
    }
  }
  for (const Bytes& input : inputs) LLVMFuzzerTestOneInput(input.data(), input.size());
  std::mt19937 random(20240229);
  for (std::size_t i = 0; i < mutations; ++i) {
    Bytes input = inputs[below(random, inputs.size())];
    for (std::size_t times = 1 + below(random, 6); times > 0; --times) {
      mutate(input, inputs[below(random, inputs.size())], random);
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs and %zu mutations\n", inputs.size(), mutations);
  return 0;
}
