#pragma once

// The positions that a sparse method sends of one parameter. They are strictly ascending, each with
// or without a sign bit, and delta-coded in chunks of a fixed number of elements.
//
// Every chunk begins at a byte and does not depend on others. So several threads can encode chunks
// that are joined later, and a reader can skip chunks by their headers. The layout is in
// docs/wire_format.md.
//
// An *entry* is a position counted from the start of its chunk, or with signs
// 2 * position + (1 if negative). The kernel of adacomp writes entries, this coder takes them as
// they are, and decoding returns the same entries.

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/bytes.h"

namespace gradwire::wire {

// A chunk of a result stays in the second-level cache while the contributions of several workers
// are added to it. Chunk headers cost 3 % at a density of 0.2 %.
inline constexpr std::uint32_t kDefaultChunkLength = 65536;
inline constexpr std::uint32_t kLongestChunk = std::uint32_t{1} << 30;

// Both sides know this from the plan, so it is not sent.
struct PositionsShape {
  std::uint64_t elements = 0;
  std::uint32_t chunk_length = kDefaultChunkLength;  // in [1, kLongestChunk]
  bool with_signs = false;

  std::uint64_t chunks() const { return (elements + chunk_length - 1) / chunk_length; }
  std::uint32_t length_of(std::uint64_t chunk) const;
};

// No section of this shape is larger, whatever is selected. A buffer of this size is always large
// enough.
std::size_t positions_bound(const PositionsShape& shape);

// Writes chunk after chunk into the caller's buffer and never beyond it. Entries that are not
// strictly ascending or not within the chunk are a std::invalid_argument, a buffer below the bound
// is a std::length_error. Both are mistakes of the caller.
class PositionsWriter {
 public:
  PositionsWriter() = default;
  PositionsWriter(const PositionsShape& shape, std::span<std::byte> buffer,
                  std::uint64_t first_chunk = 0);

  void chunk(std::span<const std::uint32_t> entries);
  // Appends chunks that another writer has encoded. That writer must have begun at this one's next
  // chunk.
  void append(const PositionsWriter& continuation);
  // Writes the whole section at once, without signs. Positions count from the parameter's start.
  void all(std::span<const std::uint32_t> positions);

  std::uint64_t next_chunk() const { return next_chunk_; }
  bool complete() const { return next_chunk_ == shape_.chunks(); }
  std::uint64_t entries() const { return entries_; }
  std::span<const std::byte> written() const { return writer_.written(); }

 private:
  void encode(std::span<const std::uint32_t> entries, std::uint32_t base);
  void encode_bitmap(std::span<const std::uint32_t> entries, std::uint32_t base,
                     std::span<std::byte> body) const;

  PositionsShape shape_;
  Writer writer_{{}};
  std::uint64_t first_chunk_ = 0;
  std::uint64_t next_chunk_ = 0;
  std::uint64_t entries_ = 0;
};

// Reads chunk after chunk. It can be copied to remember a place. Throws WireError for any bytes
// that a writer cannot have written.
class PositionsReader {
 public:
  PositionsReader() = default;
  // `start` is the offset of `bytes` in the payload, for error messages.
  PositionsReader(const PositionsShape& shape, std::span<const std::byte> bytes,
                  std::size_t start = 0);

  // Returns the entries of the next chunk, in `scratch`, which must have room for the chunk's
  // length.
  std::span<const std::uint32_t> next(std::span<std::uint32_t> scratch);
  // Skips the next chunk by its header and returns how many entries it claims to have.
  std::uint32_t skip();

  const PositionsShape& shape() const { return shape_; }
  std::uint64_t next_chunk() const { return next_chunk_; }
  bool done() const { return next_chunk_ == shape_.chunks(); }
  std::size_t offset() const { return reader_.offset(); }

 private:
  struct Chunk {
    std::uint8_t tag;
    std::uint32_t length;
    std::uint32_t count;
    std::size_t offset;
    std::span<const std::byte> body;
  };
  Chunk read_header_and_body();
  const char* decode_gaps(const Chunk& chunk, std::span<std::uint32_t> entries) const;
  const char* decode_bitmap(const Chunk& chunk, std::span<std::uint32_t> entries) const;

  PositionsShape shape_;
  Reader reader_{{}};
  std::uint64_t next_chunk_ = 0;
};

}  // namespace gradwire::wire
