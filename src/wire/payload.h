#pragma once

// One worker's contribution to one part, for the methods whose payloads are gathered. It has a
// header of fixed size, then one record per parameter in the order of the plan. The layout is in
// docs/wire_format.md.
//
// Both sides know the plan (method, order and sizes of the parameters), so it is not sent. The
// header says how many bytes the whole payload needs. If the agreed capacity was smaller, only the
// beginning arrives at first, and read_header() works on that.

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/bytes.h"
#include "wire/positions.h"

namespace gradwire::wire {

enum class Method : std::uint8_t { sign = 1, topk = 2, adacomp = 3 };

// The type of topk's values on the wire. Here bf16 and fp16 are just 16-bit words.
enum class ValueType : std::uint8_t { none = 0, fp32 = 1, bf16 = 2, fp16 = 3 };

std::size_t value_bytes(ValueType type);

struct PayloadHeader {
  Method method{};
  ValueType values{};
  bool non_finite = false;         // some parameter's gradient was not finite
  std::uint32_t contributors = 0;  // number of workers it comes from; always 1 so far
  std::uint32_t parameters = 0;
  std::uint64_t needed = 0;  // bytes of the whole payload, including this header
};

inline constexpr std::size_t kHeaderBytes = 32;

// Reads the first kHeaderBytes of a payload. The rest need not have arrived.
PayloadHeader read_header(std::span<const std::byte> payload);

// No record is larger than its bound. A buffer of kHeaderBytes plus the bounds of all records is
// always large enough.
std::size_t sign_bound(std::uint64_t elements);
std::size_t topk_bound(const PositionsShape& shape, std::uint64_t k, ValueType values);
std::size_t adacomp_bound(const PositionsShape& shape);

// Writes records in the order of the plan. Each is written by abstain(), non_finite(), topk(), or
// begin_...() and end(). Misuse throws std::logic_error, and a buffer below the bound throws
// std::length_error.
class PayloadWriter {
 public:
  PayloadWriter(std::span<std::byte> buffer, Method method, ValueType values = ValueType::none);

  // These two also replace a record that has begun.
  void abstain();
  void non_finite();

  // Returns room for one bit per element, least significant first, which the caller fills. Bits
  // past the last element must be zero. end() then takes the scale, which is known only afterwards.
  std::span<std::byte> begin_sign(std::uint64_t elements);
  // The result is valid until end(), abstain() or non_finite(). The shape must have signs.
  PositionsWriter& begin_adacomp(const PositionsShape& shape);
  void end(float scale);

  // Ascending positions, counted from the parameter's start, with one value each.
  void topk(const PositionsShape& shape, std::span<const std::uint32_t> positions,
            std::span<const float> values);
  void topk(const PositionsShape& shape, std::span<const std::uint32_t> positions,
            std::span<const std::uint16_t> values);

  // The bytes of the header and of all ended records.
  std::size_t size() const { return writer_.size(); }
  // Writes the header and returns the payload's size in bytes.
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
  std::size_t record_ = 0;  // offset of the record that is being written
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

// The values of a topk record, in the order of its positions.
class Values {
 public:
  Values() = default;
  Values(std::span<const std::byte> bytes, ValueType type) : bytes_(bytes), type_(type) {}

  ValueType type() const { return type_; }
  std::size_t size() const { return bytes_.size() / value_bytes(type_); }
  // Copies out.size() values, beginning with number `first`. The element type must match type().
  void read(std::size_t first, std::span<float> out) const;
  void read(std::size_t first, std::span<std::uint16_t> out) const;

 private:
  template <typename Word>
  std::span<const std::byte> slice(std::size_t first, std::span<Word> out) const;

  std::span<const std::byte> bytes_;
  ValueType type_ = ValueType::fp32;
};

// Of topk or adacomp.
struct SparseRecord {
  Contribution contribution = Contribution::abstains;
  PositionsReader positions;
  float scale = 0;  // adacomp
  Values values;    // topk
};

// Reads the records in the order of the plan. Throws WireError. The caller keeps the bytes, which
// must outlive the records.
class PayloadReader {
 public:
  // Ignores the padding between the needed bytes and the capacity.
  PayloadReader(std::span<const std::byte> payload, Method method, std::uint32_t parameters,
                ValueType values = ValueType::none);

  const PayloadHeader& header() const { return header_; }
  SignRecord sign(std::uint64_t elements);
  SparseRecord adacomp(const PositionsShape& shape);
  SparseRecord topk(const PositionsShape& shape);
  // The offset of the next record in the payload.
  std::size_t offset() const { return reader_.offset(); }
  // Checks that every parameter has been read and that nothing is left.
  void finish() const;

 private:
  Contribution next_record(Method method);
  float scale();
  // Reads the chunk headers of a section of positions. The chunks are checked when they are
  // decoded.
  PositionsReader positions(const PositionsShape& shape, std::uint64_t& entries);

  PayloadHeader header_;
  Reader reader_{{}};
  std::uint32_t next_parameter_ = 0;
};

}  // namespace gradwire::wire
