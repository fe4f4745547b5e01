#include <cmath>
#include <stdexcept>
#include <string>

#include "wire/payload.h"
#include "wire/payload_format.h"

namespace gradwire::wire {
template <typename Word>
std::span<const std::byte> Values::slice(std::size_t first, std::span<Word> out) const {
  if (sizeof(Word) != value_bytes(type_) || first > size() || out.size() > size() - first) {
    throw std::invalid_argument("[wire] values read by the wrong type or past their end");
  }
  return bytes_.subspan(first * sizeof(Word), out.size_bytes());
}

void Values::read(std::size_t first, std::span<float> out) const {
  const auto from = slice(first, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::bit_cast<float>(load_little_endian<std::uint32_t>(from.data() + 4 * i));
  }
}

void Values::read(std::size_t first, std::span<std::uint16_t> out) const {
  const auto from = slice(first, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = load_little_endian<std::uint16_t>(from.data() + 2 * i);
  }
}

PayloadReader::PayloadReader(std::span<const std::byte> payload, Method method,
                             std::uint32_t parameters, ValueType values)
    : header_(read_header(payload)) {
  expect(static_cast<std::uint8_t>(header_.method), static_cast<std::uint8_t>(method), "method", 5);
  expect(static_cast<std::uint8_t>(header_.values), static_cast<std::uint8_t>(values), "value type",
         6);
  expect(header_.parameters, parameters, "parameters", 20);
  if (header_.needed > payload.size()) {
    throw WireError("payload", payload.size(), std::to_string(header_.needed) + " bytes",
                    std::to_string(payload.size()) + " (truncated)");
  }
  const auto needed = static_cast<std::size_t>(header_.needed);
  reader_ = Reader(payload.first(needed).subspan(kHeaderBytes), kHeaderBytes);
}

Contribution PayloadReader::next_record(Method method) {
  if (method != header_.method || next_parameter_ == header_.parameters) {
    throw std::logic_error("[wire] payload: a record of another method, or past the last one");
  }
  ++next_parameter_;
  const std::size_t offset = reader_.offset();
  switch (const std::uint8_t flags = reader_.u8("record flags")) {
    case kRecordPresent:
      return Contribution::present;
    case kRecordAbstains:
      return Contribution::abstains;
    case kRecordNonFinite:
      if (header_.non_finite) return Contribution::non_finite;
      throw WireError("record flags", offset, "finite, as the header says", "non-finite");
    default:
      throw WireError("record flags", offset, "0, 1 or 2", std::to_string(flags));
  }
}

float PayloadReader::scale() {
  const std::size_t offset = reader_.offset();
  const float scale = reader_.f32("scale");
  if (!std::isfinite(scale) || std::signbit(scale)) {
    throw WireError("scale", offset, "a finite number, not negative", std::to_string(scale));
  }
  return scale;
}

PositionsReader PayloadReader::positions(const PositionsShape& shape, std::uint64_t& entries) {
  const std::size_t begin = reader_.offset();
  PositionsReader walk(shape, reader_.rest(), begin);
  while (!walk.done()) entries += walk.skip();
  return PositionsReader(shape, reader_.bytes(walk.offset() - begin, "positions"), begin);
}

SignRecord PayloadReader::sign(std::uint64_t elements) {
  SignRecord record;
  record.contribution = next_record(Method::sign);
  if (record.contribution != Contribution::present) return record;
  record.scale = scale();
  record.bits = reader_.bytes(static_cast<std::size_t>((elements + 7) / 8), "sign bits");
  if (elements % 8 != 0 && std::to_integer<unsigned>(record.bits.back()) >> (elements % 8) != 0) {
    throw WireError("sign bits", reader_.offset() - 1, "zeros after the last element", "set bits");
  }
  return record;
}

SparseRecord PayloadReader::adacomp(const PositionsShape& shape) {
  SparseRecord record;
  record.contribution = next_record(Method::adacomp);
  if (record.contribution != Contribution::present) return record;
  record.scale = scale();
  std::uint64_t entries = 0;
  record.positions = positions(shape, entries);
  return record;
}

SparseRecord PayloadReader::topk(const PositionsShape& shape) {
  SparseRecord record;
  record.contribution = next_record(Method::topk);
  if (record.contribution != Contribution::present) return record;
  std::uint64_t entries = 0;
  record.positions = positions(shape, entries);
  // Each claimed entry has at least one bit in a chunk's body. Whether its value is there is not
  // known yet.
  if (entries > reader_.rest().size()) {
    throw WireError("values", reader_.offset(), std::to_string(entries) + " values",
                    std::to_string(reader_.rest().size()) + " bytes (truncated)");
  }
  const auto bytes = static_cast<std::size_t>(entries) * value_bytes(header_.values);
  record.values = Values(reader_.bytes(bytes, "values"), header_.values);
  return record;
}

void PayloadReader::finish() const {
  expect(next_parameter_, header_.parameters, "parameters read", 20);
  if (!reader_.rest().empty()) {
    throw WireError("payload", reader_.offset(), "the end",
                    std::to_string(reader_.rest().size()) + " more bytes");
  }
}

}  // namespace gradwire::wire
