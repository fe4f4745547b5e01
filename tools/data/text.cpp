#include "data/text.h"

#include <array>

#include "data/byte_source.h"

namespace gradwire::data {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::size_t kLeastBytes = 10;  // the last tenth has at least one

// Replaces every character by its index in the sorted vocabulary and returns the vocabulary's size.
std::int64_t replace_by_indices(std::vector<std::uint8_t>& text) {
  std::array<bool, 256> occurs{};
  for (const std::uint8_t character : text) occurs[character] = true;
  std::array<std::uint8_t, 256> index{};
  std::int64_t size = 0;
  for (std::size_t value = 0; value < occurs.size(); ++value) {
    if (occurs[value]) index[value] = static_cast<std::uint8_t>(size++);
  }
  for (std::uint8_t& character : text) character = index[character];
  return size;
}

std::vector<std::uint8_t> read_text(const std::string& file) {
  auto text = FileSource(file).take_rest(kMostBytes);
  if (text.size() < kLeastBytes) {
    throw DataError(file, text.size(), "at least " + std::to_string(kLeastBytes) + " characters",
                    "the end after " + std::to_string(text.size()));
  }
  return text;
}

}  // namespace

Dataset load_text(const std::string& file) {
  std::vector<std::uint8_t> text = read_text(file);
  const std::int64_t characters = replace_by_indices(text);
  if (characters < 2) {
    throw DataError(file, 0, "at least two different characters", "only one");
  }
  const auto middle = text.end() - static_cast<std::ptrdiff_t>(text.size() / 10);
  Part test{
      .samples = text.size() / 10, .bytes = {middle, text.end()}, .features = {}, .labels = {}};
  text.erase(middle, text.end());
  const std::size_t length = text.size();
  return {.kind = Kind::characters,
          .sample_shape = {},
          .classes = characters,
          .mean = {},
          .deviation = {},
          .train = {.samples = length, .bytes = std::move(text), .features = {}, .labels = {}},
          .test = std::move(test)};
}

}  // namespace gradwire::data
