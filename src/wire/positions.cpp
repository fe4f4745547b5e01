#include "wire/positions.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "wire/gap_code.h"

namespace gradwire::wire {
namespace {

// The first byte of a chunk is a tag. A code's tag is the one here plus its parameter.
constexpr std::uint8_t kEmptyTag = 0x00;
constexpr std::uint8_t kFirstRiceTag = 0x01;
constexpr std::uint8_t kFirstExpGolombTag = 0x21;
constexpr std::uint8_t kBitmapTag = 0x40;

constexpr std::uint8_t first_tag(GapCode code) {
  return code == GapCode::rice ? kFirstRiceTag : kFirstExpGolombTag;
}

constexpr bool has_code(std::uint8_t tag, GapCode code) {
  return tag >= first_tag(code) && tag <= first_tag(code) + kLargestGapParameter;
}

constexpr std::size_t bytes_for_bits(std::uint64_t bits) {
  return static_cast<std::size_t>((bits + 7) / 8);
}

std::size_t bitmap_bytes(std::uint32_t length, std::uint64_t count, bool with_signs) {
  return bytes_for_bits(length) + (with_signs ? bytes_for_bits(count) : 0);
}

void check(const PositionsShape& shape) {
  if (shape.chunk_length < 1 || shape.chunk_length > kLongestChunk) {
    throw std::invalid_argument("[wire] chunk length must be in [1, 2^30]; got " +
                                std::to_string(shape.chunk_length));
  }
}

std::size_t chunk_bound(std::uint32_t length, bool with_signs) {
  return 1 + 2 * kLongestVarint + bitmap_bytes(length, length, with_signs);
}

void set_bit(std::span<std::byte> bits, std::uint32_t index) {
  bits[index / 8] |= std::byte{1} << (index % 8);
}

std::uint64_t load_up_to_64_bits(std::span<const std::byte> bytes) {
  if (bytes.size() >= 8) return load_little_endian<std::uint64_t>(bytes.data());
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    word |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return word;
}

}  // namespace

std::uint32_t PositionsShape::length_of(std::uint64_t chunk) const {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(chunk_length, elements - chunk * chunk_length));
}

std::size_t positions_bound(const PositionsShape& shape) {
  check(shape);
  if (shape.elements == 0) return kGapCodeSlack;
  const std::uint64_t last = shape.chunks() - 1;
  return static_cast<std::size_t>(last) * chunk_bound(shape.chunk_length, shape.with_signs) +
         chunk_bound(shape.length_of(last), shape.with_signs) + kGapCodeSlack;
}

PositionsWriter::PositionsWriter(const PositionsShape& shape, std::span<std::byte> buffer,
                                 std::uint64_t first_chunk)
    : shape_(shape), writer_(buffer), first_chunk_(first_chunk), next_chunk_(first_chunk) {
  check(shape);
}

void PositionsWriter::chunk(std::span<const std::uint32_t> entries) { encode(entries, 0); }

void PositionsWriter::append(const PositionsWriter& continuation) {
  if (continuation.first_chunk_ != next_chunk_) {
    throw std::logic_error("[wire] positions continue at chunk " + std::to_string(next_chunk_) +
                           "; got chunk " + std::to_string(continuation.first_chunk_));
  }
  const auto more = continuation.written();
  std::ranges::copy(more, writer_.reserve(more.size()).begin());
  next_chunk_ = continuation.next_chunk_;
  entries_ += continuation.entries_;
}

void PositionsWriter::all(std::span<const std::uint32_t> positions) {
  if (shape_.with_signs || next_chunk_ != 0) {
    throw std::logic_error("[wire] a whole section is written at once only without signs");
  }
  while (!complete()) {
    const std::uint64_t begin = next_chunk_ * shape_.chunk_length;
    const std::uint64_t end = begin + shape_.length_of(next_chunk_);
    const auto stop = std::ranges::lower_bound(positions, end);
    const auto count = static_cast<std::size_t>(stop - positions.begin());
    encode(positions.first(count), static_cast<std::uint32_t>(begin));
    positions = positions.subspan(count);
  }
  if (!positions.empty()) {
    throw std::invalid_argument("[wire] positions must be ascending and below " +
                                std::to_string(shape_.elements) + "; got " +
                                std::to_string(positions.front()));
  }
}

void PositionsWriter::encode(std::span<const std::uint32_t> entries, std::uint32_t base) {
  if (complete()) throw std::logic_error("[wire] positions: more chunks than the shape has");
  const std::uint32_t length = shape_.length_of(next_chunk_);
  if (entries.empty()) {
    writer_.u8(kEmptyTag);
    ++next_chunk_;
    return;
  }
  const GapPlan plan = plan_gaps(entries, base, shape_.with_signs);
  const std::uint32_t last = (entries.back() >> (shape_.with_signs ? 1 : 0)) - base;
  if (!plan.ascending || last >= length) {
    throw std::invalid_argument(
        "[wire] entries must be strictly ascending and within their chunk of " +
        std::to_string(length) + " elements");
  }
  const auto count = static_cast<std::uint32_t>(entries.size());
  const std::size_t as_bitmap = bitmap_bytes(length, count, shape_.with_signs);
  const bool coded = plan.body_bytes < as_bitmap;
  const std::size_t body_bytes = coded ? plan.body_bytes : as_bitmap;
  writer_.u8(coded ? static_cast<std::uint8_t>(first_tag(plan.code) + plan.parameter) : kBitmapTag);
  writer_.varint(count);
  writer_.varint(static_cast<std::uint32_t>(body_bytes));
  if (coded) {
    const std::size_t body = writer_.size();
    std::byte* out = writer_.reserve(body_bytes + kGapCodeSlack).data();
    write_gaps(entries, base, shape_.with_signs, plan, out);
    writer_.rewind(body + body_bytes);
  } else {
    encode_bitmap(entries, base, writer_.reserve(body_bytes));
  }
  ++next_chunk_;
  entries_ += count;
}

void PositionsWriter::encode_bitmap(std::span<const std::uint32_t> entries, std::uint32_t base,
                                    std::span<std::byte> body) const {
  std::ranges::fill(body, std::byte{0});
  if (!shape_.with_signs) {
    for (const std::uint32_t entry : entries) set_bit(body, entry - base);
    return;
  }
  const auto signs = body.subspan(bytes_for_bits(shape_.length_of(next_chunk_)));
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    set_bit(body, (entries[i] >> 1) - base);
    if (entries[i] & 1) set_bit(signs, i);
  }
}

PositionsReader::PositionsReader(const PositionsShape& shape, std::span<const std::byte> bytes,
                                 std::size_t start)
    : shape_(shape), reader_(bytes, start) {
  check(shape);
}

PositionsReader::Chunk PositionsReader::read_header_and_body() {
  if (done()) throw std::logic_error("[wire] positions: read past the last chunk");
  Chunk chunk{};
  chunk.offset = reader_.offset();
  chunk.length = shape_.length_of(next_chunk_);
  chunk.tag = reader_.u8("chunk tag");
  if (chunk.tag == kEmptyTag) {
    ++next_chunk_;
    return chunk;
  }
  if (!has_code(chunk.tag, GapCode::rice) && !has_code(chunk.tag, GapCode::exp_golomb) &&
      chunk.tag != kBitmapTag) {
    throw WireError("chunk tag", chunk.offset, "empty, a code of gaps or a bitmap",
                    std::to_string(chunk.tag));
  }
  chunk.count = reader_.varint("chunk count");
  if (chunk.count < 1 || chunk.count > chunk.length) {
    throw WireError("chunk count", chunk.offset, "1 to " + std::to_string(chunk.length),
                    std::to_string(chunk.count));
  }
  const std::uint32_t body_bytes = reader_.varint("chunk size");
  const std::size_t as_bitmap = bitmap_bytes(chunk.length, chunk.count, shape_.with_signs);
  if (chunk.tag == kBitmapTag ? body_bytes != as_bitmap : body_bytes >= as_bitmap) {
    throw WireError("chunk size", chunk.offset,
                    (chunk.tag == kBitmapTag ? "" : "less than ") + std::to_string(as_bitmap),
                    std::to_string(body_bytes));
  }
  chunk.body = reader_.bytes(body_bytes, "chunk body");
  ++next_chunk_;
  return chunk;
}

std::uint32_t PositionsReader::skip() { return read_header_and_body().count; }

std::span<const std::uint32_t> PositionsReader::next(std::span<std::uint32_t> scratch) {
  if (!done() && scratch.size() < shape_.length_of(next_chunk_)) {
    throw std::invalid_argument("[wire] scratch must hold a whole chunk");
  }
  const Chunk chunk = read_header_and_body();
  const auto entries = scratch.first(chunk.count);
  if (chunk.count == 0) return entries;
  const char* mistake =
      chunk.tag == kBitmapTag ? decode_bitmap(chunk, entries) : decode_gaps(chunk, entries);
  if (mistake != nullptr) {
    throw WireError("chunk body", chunk.offset,
                    std::to_string(chunk.count) + " ascending positions", mistake);
  }
  return entries;
}

const char* PositionsReader::decode_gaps(const Chunk& chunk,
                                         std::span<std::uint32_t> entries) const {
  const GapCode code = has_code(chunk.tag, GapCode::rice) ? GapCode::rice : GapCode::exp_golomb;
  return read_gaps(chunk.body, code, chunk.tag - first_tag(code), shape_.with_signs, chunk.length,
                   entries);
}

const char* PositionsReader::decode_bitmap(const Chunk& chunk,
                                           std::span<std::uint32_t> entries) const {
  const auto presence = chunk.body.first(bytes_for_bits(chunk.length));
  const auto signs = chunk.body.subspan(presence.size());
  const unsigned sign_bits = shape_.with_signs ? 1 : 0;
  std::size_t found = 0;
  for (std::size_t byte = 0; byte < presence.size(); byte += 8) {
    std::uint64_t word = load_up_to_64_bits(presence.subspan(byte));
    if (static_cast<std::size_t>(std::popcount(word)) > entries.size() - found) {
      return "a bitmap with more positions than its count";
    }
    for (; word != 0; word &= word - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(word));
      entries[found++] = (static_cast<std::uint32_t>(8 * byte) + bit) << sign_bits;
    }
  }
  if (found != entries.size()) return "a bitmap with fewer positions than its count";
  if (entries.back() >> sign_bits >= chunk.length) return "a position past the end of the chunk";
  for (std::size_t i = 0; i < signs.size() * 8; ++i) {
    const auto bit = std::to_integer<std::uint32_t>(signs[i / 8] >> (i % 8)) & 1;
    if (i < entries.size()) {
      entries[i] |= bit;
    } else if (bit != 0) {
      return "set bits after the last sign";
    }
  }
  return nullptr;
}

}  // namespace gradwire::wire
