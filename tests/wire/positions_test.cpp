#include "wire/positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "wire/gap_code.h"

namespace gradwire::wire {
namespace {

using Chunks = std::vector<std::vector<std::uint32_t>>;

std::uint32_t entry(std::uint32_t position, bool negative, bool with_signs) {
  return with_signs ? 2 * position + (negative ? 1 : 0) : position;
}

// Every element is sent independently with probability `density`, so gaps are geometric.
Chunks random_chunks(const PositionsShape& shape, double density, std::mt19937& random) {
  std::bernoulli_distribution sent(density);
  std::bernoulli_distribution negative(0.5);
  Chunks chunks(shape.chunks());
  for (std::uint64_t c = 0; c < shape.chunks(); ++c) {
    for (std::uint32_t i = 0; i < shape.length_of(c); ++i) {
      if (sent(random)) chunks[c].push_back(entry(i, negative(random), shape.with_signs));
    }
  }
  return chunks;
}

// Gaps are about e^(x * spread) with normal x. The larger the spread, the tighter the clusters and
// the wider the spaces between them.
Chunks clustered_chunks(const PositionsShape& shape, double median, double spread,
                        std::mt19937& random) {
  std::lognormal_distribution<double> gap(std::log(median), spread);
  std::bernoulli_distribution negative(0.5);
  Chunks chunks(shape.chunks());
  auto position = static_cast<std::uint64_t>(gap(random));
  for (; position < shape.elements; position += 1 + static_cast<std::uint64_t>(gap(random))) {
    chunks[position / shape.chunk_length].push_back(
        entry(static_cast<std::uint32_t>(position % shape.chunk_length), negative(random),
              shape.with_signs));
  }
  return chunks;
}

std::size_t total(const Chunks& chunks) {
  std::size_t count = 0;
  for (const auto& chunk : chunks) count += chunk.size();
  return count;
}

constexpr std::byte untouched{0xA5};

// Encodes into a buffer of exactly the bound and checks that memory around it stays untouched.
std::vector<std::byte> encode(const PositionsShape& shape, const Chunks& chunks) {
  const std::size_t bound = positions_bound(shape);
  std::vector<std::byte> memory(bound + 64, untouched);
  PositionsWriter writer(shape, std::span(memory).subspan(32, bound));
  for (const auto& chunk : chunks) writer.chunk(chunk);
  EXPECT_TRUE(writer.complete());
  EXPECT_EQ(writer.entries(), total(chunks));
  EXPECT_TRUE(
      std::all_of(memory.begin(), memory.begin() + 32, [](auto b) { return b == untouched; }));
  EXPECT_TRUE(std::all_of(memory.end() - 32, memory.end(), [](auto b) { return b == untouched; }));
  return {writer.written().begin(), writer.written().end()};
}

Chunks decode(const PositionsShape& shape, std::span<const std::byte> bytes) {
  PositionsReader reader(shape, bytes);
  std::vector<std::uint32_t> scratch(shape.chunk_length);
  Chunks chunks;
  while (!reader.done()) {
    const auto entries = reader.next(scratch);
    chunks.emplace_back(entries.begin(), entries.end());
  }
  EXPECT_EQ(reader.offset(), bytes.size());
  return chunks;
}

TEST(Positions, RoundTripAtEveryDensityAndLength) {
  std::mt19937 random(1);
  for (const bool with_signs : {false, true}) {
    for (const std::uint64_t elements : {0, 1, 2, 7, 8, 9, 63, 64, 65, 1000, 4099}) {
      for (const std::uint32_t chunk_length : {1U, 2U, 50U, 64U, 1000U, 65536U}) {
        for (const double density : {0.0, 0.001, 0.02, 0.3, 0.7, 1.0}) {
          const PositionsShape shape{elements, chunk_length, with_signs};
          const Chunks chunks = random_chunks(shape, density, random);
          EXPECT_EQ(decode(shape, encode(shape, chunks)), chunks)
              << elements << ' ' << chunk_length << ' ' << density;
        }
      }
    }
  }
}

// Long runs between clusters need unary parts of more than one word.
TEST(Positions, RoundTripOfClusters) {
  for (const bool with_signs : {false, true}) {
    const PositionsShape shape{200000, 50000, with_signs};
    Chunks chunks(4);
    for (std::uint32_t c = 0; c < 4; ++c) {
      for (std::uint32_t start = 100 * c; start < 49000; start += 9000 + 1000 * c) {
        for (std::uint32_t i = 0; i < 200; ++i) {
          chunks[c].push_back(entry(start + i, i % 3 == 0, with_signs));
        }
      }
    }
    EXPECT_EQ(decode(shape, encode(shape, chunks)), chunks);
  }
}

TEST(Positions, StayWithinFivePercentOfTheEntropy) {
  std::mt19937 random(2);
  for (const bool with_signs : {false, true}) {
    for (const double density : {0.002, 0.003, 0.005, 0.01, 0.014, 0.02}) {
      const PositionsShape shape{4'000'000, kDefaultChunkLength, with_signs};
      const Chunks chunks = random_chunks(shape, density, random);
      const auto count = static_cast<double>(total(chunks));
      const double p = count / static_cast<double>(shape.elements);
      const double entropy = -std::log2(p) - (1 - p) / p * std::log2(1 - p) + (with_signs ? 1 : 0);
      const double bits = 8.0 * static_cast<double>(encode(shape, chunks).size()) / count;
      EXPECT_LE(bits, 1.05 * entropy) << density;
      if (with_signs && density >= 0.003) {
        EXPECT_LE(bits, 12.0);
      }
      RecordProperty("bits_at_" + std::to_string(density), std::to_string(bits));
    }
  }
}

// The entropy of the gaps, in bits per gap, from their own frequencies.
double entropy_of_gaps(const Chunks& chunks, bool with_signs) {
  std::map<std::uint32_t, double> frequency;
  for (const auto& chunk : chunks) {
    std::uint32_t next = 0;
    for (const auto e : chunk) {
      const std::uint32_t position = with_signs ? e / 2 : e;
      ++frequency[position - next];
      next = position + 1;
    }
  }
  const auto count = static_cast<double>(total(chunks));
  double bits = 0;
  for (const auto& [gap, times] : frequency) bits -= times / count * std::log2(times / count);
  return bits;
}

TEST(Positions, StayNearTheEntropyOfClusters) {
  std::mt19937 random(9);
  for (const bool with_signs : {false, true}) {
    for (const double median : {2.0, 6.0, 20.0}) {
      for (const double spread : {1.0, 1.5, 2.0, 2.5}) {
        const PositionsShape shape{4'000'000, kDefaultChunkLength, with_signs};
        const Chunks chunks = clustered_chunks(shape, median, spread, random);
        const auto bytes = encode(shape, chunks);
        EXPECT_EQ(decode(shape, bytes), chunks);
        const double bits =
            8.0 * static_cast<double>(bytes.size()) / static_cast<double>(total(chunks));
        EXPECT_LE(bits, 1.15 * (entropy_of_gaps(chunks, with_signs) + (with_signs ? 1 : 0)))
            << median << ' ' << spread << ' ' << with_signs;
      }
    }
  }
}

TEST(Positions, AnEmptyChunkIsOneByte) {
  const PositionsShape shape{1'000'000, 1000, true};
  EXPECT_EQ(encode(shape, Chunks(1000)).size(), 1000U);
}

TEST(Positions, NeverExceedABitmap) {
  std::mt19937 random(3);
  for (const double density : {0.1, 0.25, 0.4, 0.5, 0.9, 1.0}) {
    const PositionsShape shape{100'000, 100'000, false};
    EXPECT_LE(encode(shape, random_chunks(shape, density, random)).size(), 12'500U + 7U);
  }
}

TEST(Positions, SectionsEncodedApartJoinToTheSameBytes) {
  std::mt19937 random(4);
  const PositionsShape shape{10'500, 1000, true};
  const Chunks chunks = random_chunks(shape, 0.05, random);
  std::vector<std::byte> first(positions_bound(shape)), second(positions_bound(shape));
  PositionsWriter head(shape, first);
  PositionsWriter tail(shape, second, 4);
  for (std::size_t c = 0; c < 4; ++c) head.chunk(chunks[c]);
  for (std::size_t c = 4; c < chunks.size(); ++c) tail.chunk(chunks[c]);
  head.append(tail);
  EXPECT_TRUE(head.complete());
  EXPECT_TRUE(std::ranges::equal(head.written(), encode(shape, chunks)));
  EXPECT_THROW(head.append(tail), std::logic_error);
}

TEST(Positions, SkipFindsTheSameChunks) {
  std::mt19937 random(5);
  const PositionsShape shape{10'500, 1000, true};
  const Chunks chunks = random_chunks(shape, 0.01, random);
  const auto bytes = encode(shape, chunks);
  std::vector<std::uint32_t> scratch(1000);
  for (std::size_t target = 0; target < chunks.size(); ++target) {
    PositionsReader reader(shape, bytes);
    for (std::size_t c = 0; c < target; ++c) EXPECT_EQ(reader.skip(), chunks[c].size());
    EXPECT_TRUE(std::ranges::equal(reader.next(scratch), chunks[target]));
  }
}

TEST(Positions, AllSplitsGlobalPositionsIntoChunks) {
  std::mt19937 random(6);
  const PositionsShape shape{10'500, 1000, false};
  const Chunks chunks = random_chunks(shape, 0.02, random);
  std::vector<std::uint32_t> positions;
  for (std::uint32_t c = 0; c < chunks.size(); ++c) {
    for (const auto e : chunks[c]) positions.push_back(1000 * c + e);
  }
  std::vector<std::byte> buffer(positions_bound(shape));
  PositionsWriter writer(shape, buffer);
  writer.all(positions);
  EXPECT_TRUE(std::ranges::equal(writer.written(), encode(shape, chunks)));
}

TEST(Positions, RefuseEntriesOutOfOrderOrRange) {
  const PositionsShape plain{100, 100, false};
  const PositionsShape with_signs{100, 100, true};
  std::vector<std::byte> buffer(1000);
  for (const std::vector<std::uint32_t>& entries : {std::vector<std::uint32_t>{100},
                                                    {5, 5},
                                                    {5, 4},
                                                    {5, 200},
                                                    {0xFFFFFFFF, 3},
                                                    {0x40000000, 0x80000000, 0xC0000000, 3}}) {
    EXPECT_THROW(PositionsWriter(plain, buffer).chunk(entries), std::invalid_argument);
    EXPECT_THROW(PositionsWriter(plain, buffer).all(entries), std::invalid_argument);
  }
  // These are the same position with both signs.
  EXPECT_THROW(PositionsWriter(with_signs, buffer).chunk(std::vector<std::uint32_t>{8, 9}),
               std::invalid_argument);
}

TEST(Positions, RefuseABufferBelowTheNeed) {
  const PositionsShape shape{1000, 1000, true};
  const std::vector<std::uint32_t> entries{4, 40, 400, 1401};
  std::vector<std::byte> memory(100, untouched);
  std::size_t smallest = 0;
  for (; smallest < 50; ++smallest) {
    PositionsWriter writer(shape, std::span(memory).first(smallest));
    try {
      writer.chunk(entries);
      break;
    } catch (const std::length_error&) {
    }
    EXPECT_TRUE(std::all_of(memory.begin() + static_cast<long>(smallest), memory.end(),
                            [](auto b) { return b == untouched; }));
  }
  EXPECT_GT(smallest, 3U);
  EXPECT_LE(smallest, positions_bound(shape));
}

TEST(Positions, RefuseEveryTruncation) {
  std::mt19937 random(7);
  const PositionsShape shape{3000, 1000, true};
  for (const Chunks& chunks :
       {random_chunks(shape, 0.01, random), random_chunks(shape, 0.6, random),
        clustered_chunks(shape, 2, 2, random)}) {
    const auto bytes = encode(shape, chunks);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THROW(decode(shape, std::span(bytes).first(size)), WireError) << size;
    }
  }
}

// Flipping any one bit gives an error or other valid positions.
TEST(Positions, SurviveEveryFlippedBit) {
  std::mt19937 random(8);
  const PositionsShape shape{700, 300, true};
  for (const Chunks& chunks :
       {random_chunks(shape, 0.02, random), random_chunks(shape, 0.6, random),
        clustered_chunks(shape, 2, 2, random)}) {
    const auto bytes = encode(shape, chunks);
    std::vector<std::uint32_t> scratch(300);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto damaged = bytes;
      damaged[bit / 8] ^= std::byte{1} << (bit % 8);
      try {
        PositionsReader reader(shape, damaged);
        while (!reader.done()) {
          const auto length = shape.length_of(reader.next_chunk());
          std::int64_t before = -1;
          for (const auto e : reader.next(scratch)) {
            EXPECT_GT(static_cast<std::int64_t>(e >> 1), before);
            before = e >> 1;
          }
          EXPECT_LT(before, length);
        }
      } catch (const WireError&) {
      }
    }
  }
}

}  // namespace
}  // namespace gradwire::wire
