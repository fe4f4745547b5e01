#pragma once

// The positions a sparse method sends of one parameter: strictly ascending, each with a sign bit or
// without, delta-coded in chunks of a fixed number of elements.
//
// Every chunk starts on a byte and stands alone: chunks can be encoded by several threads and
// joined, and a reader can skip to any of them by their headers. The layout is in
// docs/wire_format.md.
//
// The words used here: an *entry* is a position counted from the start of its chunk, or with signs
// 2 * position + (1 if negative). An adacomp kernel writes entries, this coder takes them as they
// are, and decoding gives the same entries back.

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/bytes.h"

namespace gradwire::wire {

// Small enough that a chunk of a result stays in the second-level cache while several workers'
// contributions are added to it, large enough that headers cost 3 % at a density of 0.2 %.
inline constexpr std::uint32_t kDefaultChunkLength = 65536;
inline constexpr std::uint32_t kLongestChunk = std::uint32_t{1} << 30;

// Known to both sides from the plan; nothing of it is sent.
struct PositionsShape {
  std::uint64_t elements = 0;
  std::uint32_t chunk_length = kDefaultChunkLength;  // in [1, kLongestChunk]
  bool with_signs = false;

  std::uint64_t chunks() const { return (elements + chunk_length - 1) / chunk_length; }
  std::uint32_t length_of(std::uint64_t chunk) const;
};

// No section of this shape is larger, whatever is selected; and a buffer of this size always
// serves.
std::size_t positions_bound(const PositionsShape& shape);

// Writes chunk after chunk into the caller's buffer. Entries that are not strictly ascending or not
// within the chunk are the caller's mistake (std::invalid_argument), as is a buffer below the bound
// (std::length_error); nothing is ever written beyond the buffer.
class PositionsWriter {
 public:
  PositionsWriter() = default;
  PositionsWriter(const PositionsShape& shape, std::span<std::byte> buffer,
                  std::uint64_t first_chunk = 0);

  void chunk(std::span<const std::uint32_t> entries);
  // Appends the chunks that another writer, started at this one's next chunk, has encoded
  // elsewhere.
  void append(const PositionsWriter& continuation);
  // The whole section at once, without signs, from positions counted from the parameter's start.
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

// Reads chunk after chunk; a value type, so that a copy keeps a place to come back to. Throws
// WireError for any bytes a writer cannot have written.
class PositionsReader {
 public:
  PositionsReader() = default;
  // `start`: the offset of `bytes` in the payload, for error messages.
  PositionsReader(const PositionsShape& shape, std::span<const std::byte> bytes,
                  std::size_t start = 0);

  // The entries of the next chunk, in `scratch`, which holds at least the chunk's length.
  std::span<const std::uint32_t> next(std::span<std::uint32_t> scratch);
  // Passes over the next chunk by its header alone and returns how many entries it claims.
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
