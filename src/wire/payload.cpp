#include "wire/payload.h"

#include <string>

#include "wire/payload_format.h"

namespace gradwire::wire {
namespace {

constexpr std::size_t kFlagsBytes = 1;
constexpr std::size_t kScaleBytes = 4;

bool values_fit(Method method, std::uint8_t values) {
  const auto last = static_cast<std::uint8_t>(ValueType::fp16);
  return method == Method::topk ? values >= 1 && values <= last : values == 0;
}

}  // namespace

std::size_t value_bytes(ValueType type) {
  switch (type) {
    case ValueType::fp32:
      return 4;
    case ValueType::bf16:
    case ValueType::fp16:
      return 2;
    case ValueType::none:
      break;
  }
  return 0;
}

std::size_t sign_bound(std::uint64_t elements) {
  return kFlagsBytes + kScaleBytes + static_cast<std::size_t>((elements + 7) / 8);
}

std::size_t topk_bound(const PositionsShape& shape, std::uint64_t k, ValueType values) {
  return kFlagsBytes + positions_bound(shape) + static_cast<std::size_t>(k) * value_bytes(values);
}

std::size_t adacomp_bound(const PositionsShape& shape) {
  return kFlagsBytes + kScaleBytes + positions_bound(shape);
}

PayloadHeader read_header(std::span<const std::byte> payload) {
  Reader reader(payload);
  expect(reader.u32("magic"), kPayloadMagic, "magic", 0);
  expect(reader.u8("version"), kPayloadVersion, "version", 4);
  PayloadHeader header;
  const std::uint8_t method = reader.u8("method");
  if (method < 1 || method > static_cast<std::uint8_t>(Method::adacomp)) {
    throw WireError("method", 5, "1 to 3", std::to_string(method));
  }
  header.method = static_cast<Method>(method);
  const std::uint8_t values = reader.u8("value type");
  if (!values_fit(header.method, values)) {
    throw WireError("value type", 6, "one that fits the method", std::to_string(values));
  }
  header.values = static_cast<ValueType>(values);
  const std::uint8_t flags = reader.u8("flags");
  if (flags > kHeaderNonFinite) throw WireError("flags", 7, "0 or 1", std::to_string(flags));
  header.non_finite = flags == kHeaderNonFinite;
  header.needed = reader.u64("needed size");
  if (header.needed < kHeaderBytes) {
    throw WireError("needed size", 8, "at least 32", std::to_string(header.needed));
  }
  header.contributors = reader.u32("contributors");
  header.parameters = reader.u32("parameters");
  expect(reader.u64("reserved"), 0, "reserved", 24);
  return header;
}

}  // namespace gradwire::wire
