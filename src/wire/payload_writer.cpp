#include <cmath>
#include <stdexcept>

#include "wire/payload.h"
#include "wire/payload_format.h"

namespace gradwire::wire {

PayloadWriter::PayloadWriter(std::span<std::byte> buffer, Method method, ValueType values)
    : writer_(buffer), method_(method), values_(values) {
  require((method == Method::topk) == (values != ValueType::none),
          "topk and only topk has a value type");
  writer_.reserve(kHeaderBytes);
}

void PayloadWriter::require(bool allowed, const char* rule) const {
  if (!allowed) throw std::logic_error(std::string("[wire] payload: ") + rule);
}

void PayloadWriter::begin_record(Method method) {
  require(!open_, "the record before has not been ended");
  require(method == method_, "a record of another method than the header's");
  record_ = writer_.size();
  writer_.u8(kRecordPresent);
}

void PayloadWriter::empty_record(std::uint8_t flags) {
  if (open_) writer_.rewind(record_);
  open_ = false;
  writer_.u8(flags);
  ++parameters_;
}

void PayloadWriter::abstain() { empty_record(kRecordAbstains); }

void PayloadWriter::non_finite() {
  non_finite_ = true;
  empty_record(kRecordNonFinite);
}

std::span<std::byte> PayloadWriter::begin_sign(std::uint64_t elements) {
  begin_record(Method::sign);
  writer_.f32(0);
  open_ = true;
  return writer_.reserve(static_cast<std::size_t>((elements + 7) / 8));
}

PositionsWriter& PayloadWriter::begin_adacomp(const PositionsShape& shape) {
  require(shape.with_signs, "adacomp's positions have signs");
  begin_record(Method::adacomp);
  writer_.f32(0);
  open_ = true;
  positions_ = PositionsWriter(shape, writer_.rest());
  return positions_;
}

void PayloadWriter::end(float scale) {
  require(open_, "no record has been begun");
  require(std::isfinite(scale) && !std::signbit(scale), "a scale is finite and not negative");
  if (method_ == Method::adacomp) {
    require(positions_.complete(), "some chunks have not been written");
    writer_.reserve(positions_.written().size());
  }
  const std::size_t end = writer_.size();
  writer_.rewind(record_ + 1);
  writer_.f32(scale);
  writer_.rewind(end);
  open_ = false;
  ++parameters_;
}

template <typename Word>
void PayloadWriter::topk_record(const PositionsShape& shape,
                                std::span<const std::uint32_t> positions,
                                std::span<const Word> values) {
  require(sizeof(Word) == value_bytes(values_), "values of another type than the header's");
  require(values.size() == positions.size(), "topk sends one value per position");
  require(!shape.with_signs, "topk's positions have no signs");
  begin_record(Method::topk);
  PositionsWriter section(shape, writer_.rest());
  section.all(positions);
  writer_.reserve(section.written().size());
  std::byte* out = writer_.reserve(values.size_bytes()).data();
  for (const Word value : values) {
    if constexpr (sizeof(Word) == 4) {
      store_little_endian(std::bit_cast<std::uint32_t>(value), out);
    } else {
      store_little_endian(value, out);
    }
    out += sizeof(Word);
  }
  ++parameters_;
}

void PayloadWriter::topk(const PositionsShape& shape, std::span<const std::uint32_t> positions,
                         std::span<const float> values) {
  topk_record(shape, positions, values);
}

void PayloadWriter::topk(const PositionsShape& shape, std::span<const std::uint32_t> positions,
                         std::span<const std::uint16_t> values) {
  topk_record(shape, positions, values);
}

std::size_t PayloadWriter::finish(std::uint32_t contributors) {
  require(!open_, "the last record has not been ended");
  Writer header(writer_.written().first(kHeaderBytes));
  header.u32(kPayloadMagic);
  header.u8(kPayloadVersion);
  header.u8(static_cast<std::uint8_t>(method_));
  header.u8(static_cast<std::uint8_t>(values_));
  header.u8(non_finite_ ? kHeaderNonFinite : 0);
  header.u64(writer_.size());
  header.u32(contributors);
  header.u32(parameters_);
  header.u64(0);
  return writer_.size();
}

}  // namespace gradwire::wire
