#include "kernels/half.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "every_target.h"
#include "half_reference.h"
#include "inputs.h"

namespace gradwire::kernels {
namespace {

class Half : public ::testing::TestWithParam<HalfFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, Half,
                         ::testing::Values(HalfFormat::kBfloat16, HalfFormat::kFloat16),
                         [](const auto& info) {
                           return info.param == HalfFormat::kBfloat16 ? "bfloat16" : "float16";
                         });

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  return halves;
}

TEST_P(Half, WidensEveryValueExactly) {
  const auto halves = all_halves();
  on_every_target([&] {
    std::vector<float> values(halves.size());
    widen(GetParam(), halves, values);
    for (std::uint16_t half : halves) {
      const double expected = reference::value_of(GetParam(), half);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(values[half])) << half;
      } else {
        ASSERT_EQ(values[half], expected) << half;
      }
      ASSERT_EQ(std::signbit(values[half]), (half & 0x8000) != 0) << half;
    }
  });
}

TEST_P(Half, EveryTargetWidensToTheSameBits) {
  const auto halves = all_halves();
  std::vector<float> expected(halves.size());
  widen(GetParam(), halves, expected);
  on_every_target([&] {
    std::vector<float> values(halves.size());
    widen(GetParam(), halves, values);
    for (std::uint16_t half : halves) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[half]),
                std::bit_cast<std::uint32_t>(expected[half]))
          << half;
    }
  });
}

// Tries all floats whose low bits are all zero, all one, or around the middle between two halves.
// These include every exponent, every tie and its neighbours.
TEST_P(Half, NarrowsToTheNearestEven) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 1U << 19; high += 1) {
    for (std::uint32_t low : {0x0000U, 0x0001U, 0x0FFFU, 0x1000U, 0x1001U, 0x1FFFU}) {
      values.push_back(std::bit_cast<float>(high << 13 | low));
    }
  }
  std::vector<std::uint16_t> expected;
  for (float value : values) expected.push_back(reference::narrow(GetParam(), value));
  on_every_target([&] {
    std::vector<std::uint16_t> halves(values.size());
    narrow(GetParam(), values, halves);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(halves[i], expected[i]) << values[i];
    }
  });
}

TEST_P(Half, AnySizeAndAlignment) {
  for (std::size_t size : kSizes) {
    const auto values = gradient_like(size, 1);
    on_every_target([&] {
      Unaligned<float> moved(values);
      Unaligned<std::uint16_t> halves(std::vector<std::uint16_t>(size, 0xAAAA));
      narrow(GetParam(), moved.span(), halves.span());
      widen(GetParam(), halves.span(), moved.span());
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint16_t expected = reference::narrow(GetParam(), values[i]);
        ASSERT_EQ(halves.span()[i], expected) << i << " of " << size;
        ASSERT_EQ(moved.span()[i], reference::value_of(GetParam(), expected)) << i;
      }
    });
  }
}

TEST_P(Half, SumsInOrderAndRoundsOnce) {
  for (std::size_t workers : {0, 1, 2, 5}) {
    for (std::size_t size : kSizes) {
      std::vector<std::vector<std::uint16_t>> parts;
      std::vector<const std::uint16_t*> pointers;
      std::vector<float> total(size);
      for (std::size_t w = 0; w < workers; ++w) {
        const auto values = gradient_like(size, static_cast<unsigned>(w));
        auto& part = parts.emplace_back(size);
        for (std::size_t i = 0; i < size; ++i) {
          part[i] = reference::narrow(GetParam(), values[i]);
          total[i] += static_cast<float>(reference::value_of(GetParam(), part[i]));
        }
        pointers.push_back(part.data());
      }
      on_every_target([&] {
        std::vector<std::uint16_t> sum(size, 0xAAAA);
        sum_halves(GetParam(), pointers, 0.3F, sum);
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_EQ(sum[i], reference::narrow(GetParam(), total[i] * 0.3F)) << i << " of " << size;
        }
      });
    }
  }
}

TEST_P(Half, SumMayReplaceAPart) {
  on_every_target([&] {
    std::vector<float> values = gradient_like(1001, 3);
    std::vector<std::uint16_t> own(values.size());
    narrow(GetParam(), values, own);
    const auto other = own;
    const std::uint16_t* const parts[] = {other.data(), own.data()};
    sum_halves(GetParam(), parts, 0.5F, own);
    for (std::size_t i = 0; i < own.size(); ++i) {
      ASSERT_EQ(reference::value_of(GetParam(), own[i]), reference::value_of(GetParam(), other[i]));
    }
  });
}

}  // namespace
}  // namespace gradwire::kernels
