// Decoding gives back what was encoded, within the bound.

#include <algorithm>
#include <vector>

#include "fuzz_input.h"
#include "wire/positions.h"

using namespace gradwire;

namespace {

std::vector<std::uint32_t> entries_from(fuzz::FuzzInput& input, std::uint32_t length,
                                        bool with_signs) {
  std::vector<std::uint32_t> entries;
  const std::uint32_t largest_gap = input.between(0, length);
  for (std::uint64_t position = input.between(0, largest_gap); position < length && !input.empty();
       position += 1 + input.number<std::uint8_t>() * (largest_gap + std::uint64_t{1}) / 256) {
    const auto at = static_cast<std::uint32_t>(position);
    entries.push_back(with_signs ? 2 * at + (input.coin() ? 1 : 0) : at);
  }
  return entries;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  const bool with_signs = input.coin();
  const wire::PositionsShape shape{input.between(0, 60000), input.between(1, 40000), with_signs};
  if (shape.chunks() > 100) return 0;
  std::vector<std::byte> buffer(wire::positions_bound(shape));
  wire::PositionsWriter writer(shape, buffer);
  std::vector<std::vector<std::uint32_t>> chunks;
  while (!writer.complete()) {
    chunks.push_back(entries_from(input, shape.length_of(writer.next_chunk()), with_signs));
    writer.chunk(chunks.back());
  }
  std::vector<std::uint32_t> scratch(shape.chunk_length);
  // An exact copy, so that a sanitizer sees a read past the end.
  const std::vector<std::byte> bytes(writer.written().begin(), writer.written().end());
  wire::PositionsReader reader(shape, bytes);
  for (const auto& entries : chunks) {
    fuzz::require(std::ranges::equal(reader.next(scratch), entries), "what was encoded comes back");
  }
  fuzz::require(reader.done() && reader.offset() == bytes.size(), "all bytes are read");
  return 0;
}
