#pragma once

// What one worker contributes of one bucket, for the methods whose payloads are gathered: a header
// of fixed size, then one record per parameter in the order of the plan. The layout is in
// docs/wire_format.md.
//
// Both sides know the plan (method, order and sizes of the parameters), so it is checked, not sent.
// The header says how many bytes the whole payload needs: where the agreed capacity was smaller,
// only a prefix arrives at first, from which read_header() still works.

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/bytes.h"
#include "wire/positions.h"

namespace gradwire::wire {

enum class Method : std::uint8_t { sign = 1, topk = 2, adacomp = 3 };

// How topk's values travel. The halves are opaque 16-bit words here.
enum class ValueType : std::uint8_t { none = 0, fp32 = 1, bf16 = 2, fp16 = 3 };

std::size_t value_bytes(ValueType type);

struct PayloadHeader {
  Method method{};
  ValueType values{};
  bool non_finite = false;         // some parameter's gradient was not finite
  std::uint32_t contributors = 0;  // workers this payload speaks for: always 1 so far
  std::uint32_t parameters = 0;
  std::uint64_t needed = 0;  // bytes of the whole payload, this header included
};

inline constexpr std::size_t kHeaderBytes = 32;

// From the first kHeaderBytes of a payload, the rest of which may not have arrived.
PayloadHeader read_header(std::span<const std::byte> payload);

// No record is larger; a buffer of kHeaderBytes plus the bounds of all records always serves.
std::size_t sign_bound(std::uint64_t elements);
std::size_t topk_bound(const PositionsShape& shape, std::uint64_t k, ValueType values);
std::size_t adacomp_bound(const PositionsShape& shape);

// Records are written in the order of the plan, each by one of: abstain(), non_finite(), topk(), or
// begin_...() and end(). Misuse throws std::logic_error, a buffer below the bound
// std::length_error.
class PayloadWriter {
 public:
  PayloadWriter(std::span<std::byte> buffer, Method method, ValueType values = ValueType::none);

  // These two also replace a record that was begun.
  void abstain();
  void non_finite();

  // One bit per element, least significant first, for the caller to fill; bits past the last
  // element must be zero. The scale is known only afterwards, hence end().
  std::span<std::byte> begin_sign(std::uint64_t elements);
  // Valid until end(), abstain() or non_finite(). The shape has signs.
  PositionsWriter& begin_adacomp(const PositionsShape& shape);
  void end(float scale);

  // Positions from the parameter's start, ascending; one value each.
  void topk(const PositionsShape& shape, std::span<const std::uint32_t> positions,
            std::span<const float> values);
  void topk(const PositionsShape& shape, std::span<const std::uint32_t> positions,
            std::span<const std::uint16_t> values);

  // Bytes written so far, header and ended records.
  std::size_t size() const { return writer_.size(); }
  // Writes the header and returns the bytes of the payload.
  std::size_t finish(std::uint32_t contributors);

 private:
  void require(bool allowed, const char* rule) const;
  void empty_record(std::uint8_t flags);
  void begin_record(Method method);
  template <typename Word>
  void topk_record(const PositionsShape& shape, std::span<const std::uint32_t> positions,
                   std::span<const Word> values);

  Writer writer_;
  PositionsWriter positions_;
  std::size_t record_ = 0;  // where the record being written starts
  std::uint32_t parameters_ = 0;
  Method method_;
  ValueType values_;
  bool open_ = false;
  bool non_finite_ = false;
};

enum class Contribution : std::uint8_t { present, abstains, non_finite };

struct SignRecord {
  Contribution contribution = Contribution::abstains;
  float scale = 0;
  std::span<const std::byte> bits;
};

struct AdacompRecord {
  Contribution contribution = Contribution::abstains;
  float scale = 0;
  PositionsReader positions;
};

// The values of a topk record, in the order of its positions.
class Values {
 public:
  Values() = default;
  Values(std::span<const std::byte> bytes, ValueType type) : bytes_(bytes), type_(type) {}

  ValueType type() const { return type_; }
  std::size_t size() const { return bytes_.size() / value_bytes(type_); }
  // Copies out.size() values starting with number `first`; the element type must fit type().
  void read(std::size_t first, std::span<float> out) const;
  void read(std::size_t first, std::span<std::uint16_t> out) const;

 private:
  template <typename Word>
  std::span<const std::byte> slice(std::size_t first, std::span<Word> out) const;

  std::span<const std::byte> bytes_;
  ValueType type_ = ValueType::fp32;
};

struct TopkRecord {
  Contribution contribution = Contribution::abstains;
  PositionsReader positions;
  Values values;
};

// Reads the records in order, each with what the plan says about it. Throws WireError. The bytes
// stay the caller's and must outlive the records.
class PayloadReader {
 public:
  // Bytes after the needed ones (padding up to the capacity) are ignored.
  PayloadReader(std::span<const std::byte> payload, Method method, std::uint32_t parameters,
                ValueType values = ValueType::none);

  const PayloadHeader& header() const { return header_; }
  SignRecord sign(std::uint64_t elements);
  AdacompRecord adacomp(const PositionsShape& shape);
  TopkRecord topk(const PositionsShape& shape);
  // Where in the payload the next record starts.
  std::size_t offset() const { return reader_.offset(); }
  // Checks that every parameter has been read and nothing is left over.
  void finish() const;

 private:
  Contribution next_record(Method method);
  float scale();
  // Walks the chunk headers of a positions section; the chunks themselves are checked when decoded.
  PositionsReader positions(const PositionsShape& shape, std::uint64_t& entries);

  PayloadHeader header_;
  Reader reader_{{}};
  std::uint32_t next_parameter_ = 0;
};

}  // namespace gradwire::wire
