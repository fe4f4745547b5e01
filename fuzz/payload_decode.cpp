// Any bytes, read by any plan, give records of that plan or a WireError.

#include <vector>

#include "fuzz_input.h"
#include "wire/payload.h"

using namespace gradwire;

namespace {

void read_positions(wire::PositionsReader reader, std::uint64_t expected) {
  std::vector<std::uint32_t> scratch(reader.shape().chunk_length);
  std::uint64_t entries = 0;
  while (!reader.done()) entries += reader.next(scratch).size();
  fuzz::require(expected == UINT64_MAX || entries == expected, "as many positions as values");
}

void read_values(const wire::Values& values) {
  if (values.type() == wire::ValueType::fp32) {
    std::vector<float> out(values.size());
    values.read(0, out);
  } else {
    std::vector<std::uint16_t> out(values.size());
    values.read(0, out);
  }
}

void read_record(wire::PayloadReader& reader, wire::Method method, std::uint32_t elements,
                 std::uint32_t chunk_length) {
  if (method == wire::Method::sign) {
    const auto record = reader.sign(elements);
    fuzz::require(record.contribution != wire::Contribution::present ||
                      record.bits.size() == (elements + 7) / 8,
                  "one bit per element");
  } else if (method == wire::Method::adacomp) {
    read_positions(reader.adacomp({elements, chunk_length, true}).positions, UINT64_MAX);
  } else {
    const auto record = reader.topk({elements, chunk_length, false});
    read_positions(record.positions, record.values.size());
    read_values(record.values);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  const std::uint32_t elements = input.between(0, 3000);
  const std::uint32_t chunk_length = input.between(1, 1000);
  const std::span<const std::byte> payload = input.rest();
  try {
    // The header's own method and count, so that the input gets past them.
    const wire::PayloadHeader header = wire::read_header(payload);
    const std::uint32_t parameters = header.parameters % 64;
    wire::PayloadReader reader(payload, header.method, parameters, header.values);
    for (std::uint32_t i = 0; i < parameters; ++i) {
      read_record(reader, header.method, elements, chunk_length);
    }
    reader.finish();
  } catch (const wire::WireError& error) {
    fuzz::require(error.offset() <= size, "an error lies within the input");
  }
  return 0;
}
