// Any bytes give ascending positions within their chunk, or a WireError.

#include <vector>

#include "fuzz_input.h"
#include "wire/positions.h"

using namespace gradwire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  const bool with_signs = input.coin();
  const wire::PositionsShape shape{input.between(0, 5000), input.between(1, 2000), with_signs};
  std::vector<std::uint32_t> scratch(shape.chunk_length);
  wire::PositionsReader reader(shape, input.rest());
  try {
    while (!reader.done()) {
      wire::PositionsReader skipping = reader;
      const std::uint32_t length = shape.length_of(reader.next_chunk());
      const auto entries = reader.next(scratch);
      fuzz::require(skipping.skip() == entries.size(), "skipping counts what decoding gives");
      std::int64_t before = -1;
      for (const std::uint32_t entry : entries) {
        const std::int64_t position = with_signs ? entry / 2 : entry;
        fuzz::require(position > before && position < length, "positions ascend within the chunk");
        before = position;
      }
    }
  } catch (const wire::WireError& error) {
    fuzz::require(error.offset() <= size, "an error lies within the input");
  }
  return 0;
}
