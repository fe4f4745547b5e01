#include "wire/gap_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "wire/positions.h"

namespace gradwire::wire {
namespace {

constexpr GapCode both_codes[] = {GapCode::rice, GapCode::exp_golomb};

using Entries = std::vector<std::uint32_t>;

Entries entries_at(const Entries& positions, bool with_signs) {
  Entries entries;
  for (const auto p : positions) entries.push_back(with_signs ? 2 * p + p % 2 : p);
  return entries;
}

std::size_t bits_of(const Entries& positions, GapCode code, unsigned k, bool with_signs) {
  std::uint64_t bits = 0, next = 0;
  for (const auto p : positions) {
    const std::uint64_t gap = p - next;
    const auto power = static_cast<unsigned>(std::bit_width(gap + (std::uint64_t{1} << k))) - 1;
    bits += code == GapCode::rice ? (gap >> k) + 1 + k : 2 * power - k + 1;
    bits += with_signs ? 1 : 0;
    next = p + std::uint64_t{1};
  }
  return bits;
}

Entries random_positions(std::size_t count, unsigned widest_gap, std::mt19937& random) {
  Entries positions;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    positions.push_back(
        next + (static_cast<std::uint32_t>(random()) >> 1 >> (31 - random() % widest_gap)));
    next = positions.back() + 1;
  }
  return positions;
}

std::vector<std::byte> write(const Entries& entries, bool with_signs, const GapPlan& plan) {
  std::vector<std::byte> body(plan.body_bytes + kGapCodeSlack);
  write_gaps(entries, 0, with_signs, plan, body.data());
  body.resize(plan.body_bytes);
  body.shrink_to_fit();  // so that a sanitizer notices a read past the end
  return body;
}

void expect_round_trip(const Entries& positions, std::uint32_t length, bool with_signs,
                       const GapPlan& plan) {
  const Entries entries = entries_at(positions, with_signs);
  const auto body = write(entries, with_signs, plan);
  Entries decoded(entries.size());
  ASSERT_EQ(read_gaps(body, plan.code, plan.parameter, with_signs, length, decoded), nullptr);
  ASSERT_EQ(decoded, entries) << length;
  EXPECT_NE(read_gaps(body, plan.code, plan.parameter, with_signs, positions.back(), decoded),
            nullptr);
  const auto shorter = std::span(body).first(body.size() - 1);
  EXPECT_NE(read_gaps(shorter, plan.code, plan.parameter, with_signs, length, decoded), nullptr);
}

TEST(GapCode, RoundTripOfExtremeGaps) {
  for (const bool with_signs : {false, true}) {
    for (const std::uint32_t length : {65536U, 1U << 20, kLongestChunk}) {
      for (const Entries& positions : {Entries{length - 1},
                                       {0, length - 1},
                                       {0, 1, 2, 3, length - 1},
                                       {length - 2, length - 1},
                                       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, length - 1}}) {
        const GapPlan plan = plan_gaps(entries_at(positions, with_signs), 0, with_signs);
        ASSERT_TRUE(plan.ascending);
        EXPECT_EQ(plan.body_bytes,
                  (bits_of(positions, plan.code, plan.parameter, with_signs) + 7) / 8);
        expect_round_trip(positions, length, with_signs, plan);
        for (unsigned k = 0; k <= kLargestGapParameter; ++k) {
          const auto bits = bits_of(positions, GapCode::exp_golomb, k, with_signs);
          expect_round_trip(positions, length, with_signs,
                            {GapCode::exp_golomb, k, (bits + 7) / 8, true});
        }
      }
    }
  }
}

TEST(GapCode, RoundTripWithEveryParameter) {
  std::mt19937 random(1);
  for (const GapCode code : both_codes) {
    for (const bool with_signs : {false, true}) {
      for (unsigned k = 0; k <= kLargestGapParameter; ++k) {
        for (const std::size_t count : {1, 2, 3, 50, 257}) {
          const Entries positions = random_positions(count, 12, random);
          const auto bits = bits_of(positions, code, k, with_signs);
          expect_round_trip(positions, 1U << 20, with_signs, {code, k, (bits + 7) / 8, true});
        }
      }
    }
  }
}

// A unary part of several words may begin and end at any bit of the body's last word.
TEST(GapCode, RoundTripOfLongGapsAtEveryBit) {
  for (std::uint32_t cluster = 1; cluster < 130; ++cluster) {
    for (std::uint32_t gap = 0; gap < 200; ++gap) {
      Entries positions;
      for (std::uint32_t i = 0; i < cluster; ++i) positions.push_back(i);
      positions.push_back(cluster + gap);
      expect_round_trip(positions, 1000, false,
                        {GapCode::rice, 0, (cluster + 1 + gap + 7) / 8, true});
    }
    // These codes have up to 61 bits.
    for (unsigned width = 0; width < 30; ++width) {
      Entries positions;
      for (std::uint32_t i = 0; i < cluster; ++i) positions.push_back(i);
      positions.push_back(cluster + (1U << width) - 1);
      const auto bits = bits_of(positions, GapCode::exp_golomb, 0, false);
      expect_round_trip(positions, kLongestChunk, false,
                        {GapCode::exp_golomb, 0, (bits + 7) / 8, true});
    }
  }
}

// The plan knows exactly what is written, and for clustered gaps no other code is cheaper.
TEST(GapCode, PlansAreExactAndCheap) {
  std::mt19937 random(2);
  for (const bool with_signs : {false, true}) {
    for (unsigned widest = 1; widest <= 20; ++widest) {
      const Entries positions = random_positions(500, widest, random);
      const GapPlan plan = plan_gaps(entries_at(positions, with_signs), 0, with_signs);
      ASSERT_TRUE(plan.ascending);
      EXPECT_EQ(plan.body_bytes,
                (bits_of(positions, plan.code, plan.parameter, with_signs) + 7) / 8);
      for (const GapCode code : both_codes) {
        for (unsigned k = 0; k <= kLargestGapParameter; ++k) {
          EXPECT_LE(plan.body_bytes, (bits_of(positions, code, k, with_signs) + 7) / 8)
              << widest << ' ' << k;
        }
      }
      EXPECT_TRUE(plan.code == GapCode::exp_golomb || widest < 7) << widest;
    }
  }
}

TEST(GapCode, RefuseZerosWithoutEndAndOverlongCodes) {
  Entries entries(1);
  const std::vector<std::byte> zeros(1000);
  for (const bool with_signs : {false, true}) {
    for (const GapCode code : both_codes) {
      for (unsigned k = 0; k <= kLargestGapParameter; ++k) {
        EXPECT_NE(read_gaps(zeros, code, k, with_signs, 65536, entries), nullptr);
        EXPECT_NE(read_gaps({}, code, k, with_signs, 65536, entries), nullptr);
      }
    }
    // One code of exponential Golomb with any number of zeros and a tail of zeros. The gap is
    // 2^k (2^zeros - 1).
    for (unsigned k = 0; k <= kLargestGapParameter; ++k) {
      for (unsigned count = 0; count < 70; ++count) {
        const unsigned bits = 2 * count + 1 + k + (with_signs ? 1 : 0);
        std::vector<std::byte> body((bits + 7) / 8);
        body[count / 8] = std::byte{1} << (count % 8);
        const bool within = count + k <= 30 && ((1ULL << count) - 1) << k < kLongestChunk;
        const char* mistake =
            read_gaps(body, GapCode::exp_golomb, k, with_signs, kLongestChunk, entries);
        EXPECT_EQ(mistake == nullptr, within) << k << ' ' << count;
      }
    }
  }
}

TEST(GapCode, SurviveAnyBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 200'000; ++round) {
    std::vector<std::byte> body(random() % 40);
    const auto sparse = random() % 2 == 0;  // long codes need long runs of zeros
    for (auto& byte : body)
      byte = static_cast<std::byte>(sparse && random() % 8 != 0 ? 0 : random());
    const bool with_signs = random() % 2 == 0;
    const std::uint32_t length = 1 + static_cast<std::uint32_t>(random()) % kLongestChunk;
    Entries entries(1 + random() % std::min<std::uint32_t>(length, 20));
    const auto k = static_cast<unsigned>(random() % (kLargestGapParameter + 1));
    if (read_gaps(body, both_codes[round % 2], round % 3 == 0 ? 0 : k, with_signs, length,
                  entries)) {
      continue;
    }
    std::int64_t before = -1;
    for (const auto e : entries) {
      const std::int64_t position = with_signs ? e / 2 : e;
      ASSERT_TRUE(position > before && position < length);
      before = position;
    }
  }
}

}  // namespace
}  // namespace gradwire::wire
