#include "kernels/quant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

#include "every_target.h"
#include "inputs.h"
#include "quant_reference.h"

namespace gradwire::kernels {
namespace {

// The parameter is the number of bits. Every test tries blocks within a step, of whole steps, and
// of neither.
class Quant : public ::testing::TestWithParam<int> {
 protected:
  static std::vector<QuantFormat> formats() {
    std::vector<QuantFormat> all;
    for (std::size_t block : {8, 16, 24, 32, 40, 64, 96, 256, 1000, 4096}) {
      all.push_back({GetParam(), block});
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Bits, Quant, ::testing::Values(8, 4, 2, 1),
                         ::testing::PrintToStringParamName());

std::vector<std::uint8_t> garbage(std::size_t bytes) {
  return std::vector<std::uint8_t>(bytes, 0xAA);
}

// Numbers of any exponent, so that some blocks hold nothing but denormals, some end beyond the
// limit, and most hold numbers of one magnitude.
std::vector<float> of_all_magnitudes(QuantFormat format, std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values = gradient_like(size, seed);
  int exponent = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (i % format.block == 0) exponent = static_cast<int>(random() % 280) - 152;
    values[i] = std::ldexp(values[i], exponent);
  }
  return values;
}

// Compares quantise() with the reference, with a residual and without.
void expect_quantised(QuantFormat format, std::span<const float> gradient,
                      std::span<const float> residual) {
  const auto expected = reference::quantise(format, gradient, residual);
  on_every_target([&] {
    Unaligned<float> moved_gradient(gradient);
    Unaligned<float> state(residual);
    Unaligned<std::uint8_t> records(garbage(expected.records.size()));
    const bool finite = quantise(format, moved_gradient.span(), state.span(), records.span());
    EXPECT_EQ(finite, expected.all_finite());
    EXPECT_TRUE(std::ranges::equal(records.span(), expected.records));
    EXPECT_EQ(bits_of(state.span()), bits_of(expected.residual));
    EXPECT_EQ(finite, all_finite(format, gradient.size(), records.span()));
  });
}

TEST_P(Quant, QuantisesAsTheReference) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    for (std::size_t size : kSizes) {
      SCOPED_TRACE(size);
      const auto gradient = gradient_like(size, 1);
      expect_quantised(format, gradient, {});
      expect_quantised(format, gradient, gradient_like(size, 2));
    }
  }
}

TEST_P(Quant, QuantisesAllMagnitudesAsTheReference) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::size_t size = 40 * format.block + 13;
    const auto gradient = of_all_magnitudes(format, size, 3);
    expect_quantised(format, gradient, {});
    expect_quantised(format, gradient, of_all_magnitudes(format, size, 3));
  }
}

// A special number among zeros and among numbers, in a whole block and in a short one.
TEST_P(Quant, QuantisesSpecialNumbersAsTheReference) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const float limit = 0x1p126F;
    for (float special : {0.0F, FloatLimits::denorm_min(), FloatLimits::min(),
                          127 * FloatLimits::min(), limit, std::nextafter(limit, 0.0F),
                          FloatLimits::max(), FloatLimits::infinity(), FloatLimits::quiet_NaN()}) {
      for (float sign : {1.0F, -1.0F}) {
        SCOPED_TRACE(sign * special);
        const std::size_t size = 2 * format.block + 7;
        std::vector<float> gradient(size, -0.0F);
        gradient[size - 1] = sign * special;
        gradient[5] = sign * special;
        expect_quantised(format, gradient, {});
        expect_quantised(format, gradient, std::vector<float>(size, -0.0F));
        expect_quantised(format, gradient, gradient_like(size, 4));
      }
    }
  }
}

TEST_P(Quant, ABlockOfTheLargestNumbersIsNotFinite) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::vector<float> gradient(3 * format.block, FloatLimits::max());
    expect_quantised(format, gradient, {});
    expect_quantised(format, gradient, gradient);
  }
}

// Beyond the outermost level of 2 bits and 1 bit there is no such bound.
TEST_P(Quant, IsWithinHalfAStepOfTheLevels) {
  const double outermost = GetParam() > 2 ? INFINITY : GetParam() == 2 ? 1.5 : 1;
  const double half = GetParam() == 1 ? 1 : 0.5 + 0x1p-16;
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::size_t size = 20 * format.block + 9;
    const auto gradient = of_all_magnitudes(format, size, 5);
    std::vector<std::uint8_t> records(format.bytes(size));
    quantise(format, gradient, {}, records);
    std::vector<float> result(size);
    dequantise(format, records, result);
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t at = i / format.block * format.record_bytes();
      std::uint16_t scale;
      std::memcpy(&scale, records.data() + at, sizeof(scale));
      const double step = reference::bfloat16_value(scale);
      if (std::isnan(step) || std::abs(gradient[i]) > outermost * step) continue;
      ASSERT_LE(std::abs(double{gradient[i]} - result[i]), half * step) << i;
    }
  }
}

TEST_P(Quant, ZerosAreZeroBytesAndDecodeToZero) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    for (std::size_t size : kSizes) {
      on_every_target([&] {
        const std::vector<float> zeros(size, -0.0F);
        auto records = garbage(format.bytes(size));
        EXPECT_TRUE(quantise(format, zeros, {}, records));
        EXPECT_EQ(std::ranges::count(records, 0), records.size());
        std::vector<float> result(size, 1);
        dequantise(format, records, result);
        EXPECT_EQ(bits_of(result), bits_of(std::vector<float>(size))) << size;
      });
    }
  }
}

// Records of any bytes but scales near overflow, where products are not finite.
std::vector<std::uint8_t> random_records(QuantFormat format, std::size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> records(format.bytes(elements));
  for (auto& byte : records) byte = static_cast<std::uint8_t>(random());
  for (std::size_t block = 0; block < format.blocks(elements); ++block) {
    const std::uint16_t scale = random() % 8 == 0 ? 0 : 0x3000 + random() % 0x1000;
    std::memcpy(records.data() + block * format.record_bytes(), &scale, sizeof(scale));
  }
  return records;
}

struct Parts {
  Parts(QuantFormat format, std::size_t elements, std::size_t workers, unsigned seed) {
    for (std::size_t w = 0; w < workers; ++w) {
      records.push_back(random_records(format, elements, seed + static_cast<unsigned>(w)));
    }
    for (const auto& part : records) pointers.push_back(part.data());
  }
  std::vector<std::vector<std::uint8_t>> records;
  std::vector<const std::uint8_t*> pointers;
};

TEST_P(Quant, SumsAsTheReference) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    for (std::size_t workers : {0, 1, 2, 5}) {
      for (std::size_t size : kSizes) {
        const Parts parts(format, size, workers, 6);
        const auto expected = reference::sum_quantised(format, parts.pointers, 0.3F, size);
        on_every_target([&] {
          Unaligned<float> result(std::vector<float>(size, FloatLimits::quiet_NaN()));
          sum_quantised(format, parts.pointers, 0.3F, result.span());
          EXPECT_EQ(bits_of(result.span()), bits_of(expected)) << workers << " x " << size;
        });
      }
    }
  }
}

void expect_average(QuantFormat format, const Parts& parts, std::size_t elements,
                    std::span<const float> residual) {
  const auto expected = reference::average_quantised(format, parts.pointers, elements, residual);
  on_every_target([&] {
    Unaligned<float> state(residual);
    auto records = garbage(expected.records.size());
    const bool finite = average_quantised(format, parts.pointers, elements, state.span(), records);
    EXPECT_EQ(finite, expected.all_finite());
    EXPECT_EQ(records, expected.records);
    EXPECT_EQ(bits_of(state.span()), bits_of(expected.residual));
  });
}

TEST_P(Quant, AveragesAsTheReference) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    for (std::size_t workers : {1, 3, 4}) {
      for (std::size_t size : kSizes) {
        SCOPED_TRACE(std::to_string(workers) + " x " + std::to_string(size));
        const Parts parts(format, size, workers, 7);
        expect_average(format, parts, size, {});
        expect_average(format, parts, size, gradient_like(size, 8));
      }
    }
  }
}

TEST_P(Quant, AnAverageMayReplaceAPart) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::size_t size = 5 * format.block + 3;
    Parts parts(format, size, 3, 9);
    const auto expected = reference::average_quantised(format, parts.pointers, size, {});
    average_quantised(format, parts.pointers, size, {}, parts.records[1]);
    EXPECT_EQ(parts.records[1], expected.records);
  }
}

// One part marks its second block; the sums of the third overflow.
TEST_P(Quant, ANonFiniteBlockReachesTheAverageAlone) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::size_t size = 4 * format.block + 5;
    Parts parts(format, size, 3, 10);
    mark_not_finite(format, format.block,
                    std::span(parts.records[1]).subspan(format.record_bytes()));
    std::vector<float> large(format.block, 0x1p125F / static_cast<float>(format.block));
    large[3] = 0x1.8p125F;
    for (auto& part : parts.records) {
      const auto third = std::span(part).subspan(2 * format.record_bytes());
      ASSERT_TRUE(quantise(format, large, {}, third));
    }
    expect_average(format, parts, size, gradient_like(size, 11));

    std::vector<std::uint8_t> records(format.bytes(size));
    average_quantised(format, parts.pointers, size, {}, records);
    EXPECT_FALSE(all_finite(format, 2 * format.block, records));
    EXPECT_TRUE(all_finite(format, format.block, records));
    std::vector<float> result(size);
    dequantise(format, records, result);
    for (std::size_t i = 0; i < 2 * format.block; ++i) {
      EXPECT_EQ(std::isnan(result[i]), i >= format.block);
    }
  }
}

TEST_P(Quant, SplittingAtBlocksChangesNothing) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::size_t size = 6 * format.block + 11;
    const std::size_t cut = 2 * format.block;
    const std::size_t cut_bytes = 2 * format.record_bytes();
    const auto gradient = gradient_like(size, 12);
    const auto residual = gradient_like(size, 13);
    const auto whole = reference::quantise(format, gradient, residual);
    auto state = residual;
    std::vector<std::uint8_t> records(format.bytes(size));
    const std::span<const float> all(gradient);
    quantise(format, all.subspan(cut), std::span(state).subspan(cut),
             std::span(records).subspan(cut_bytes));
    quantise(format, all.first(cut), std::span(state).first(cut),
             std::span(records).first(cut_bytes));
    EXPECT_EQ(records, whole.records);
    EXPECT_EQ(bits_of(state), bits_of(whole.residual));
  }
}

TEST_P(Quant, RollsBackWhatWasFinite) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::size_t size = 4 * format.block + 7;
    auto gradient = gradient_like(size, 14);
    gradient[format.block + 1] = FloatLimits::infinity();
    const auto before = gradient_like(size, 15);
    auto state = before;
    std::vector<std::uint8_t> records(format.bytes(size));
    ASSERT_FALSE(quantise(format, gradient, state, records));
    ASSERT_NE(state, before);
    roll_back_quantised(format, gradient, records, state);
    for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(state[i], before[i], 1e-5) << i;
  }
}

TEST_P(Quant, RollsBackAnAverage) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    const std::size_t size = 4 * format.block + 7;
    Parts parts(format, size, 3, 16);
    mark_not_finite(format, format.block, parts.records[2]);
    const auto before = gradient_like(size, 17);
    auto state = before;
    std::vector<std::uint8_t> records(format.bytes(size));
    ASSERT_FALSE(average_quantised(format, parts.pointers, size, state, records));
    ASSERT_NE(state, before);
    roll_back_average(format, parts.pointers, records, state);
    for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(state[i], before[i], 1e-5) << i;
  }
}

// The whole exchange: N * result + the sum of all changes of residuals is the sum of gradients.
TEST_P(Quant, LosesNothing) {
  for (const QuantFormat format : formats()) {
    SCOPED_TRACE(format.block);
    constexpr std::size_t kWorkers = 3;
    const std::size_t size = 5 * format.block + 7;
    std::vector<double> missing(size);
    std::vector<std::vector<float>> states;
    Parts parts(format, size, kWorkers, 0);
    for (unsigned w = 0; w < kWorkers; ++w) {
      const auto gradient = gradient_like(size, 20 + w);
      auto& state = states.emplace_back(gradient_like(size, 30 + w));
      for (std::size_t i = 0; i < size; ++i) missing[i] += double{gradient[i]} + state[i];
      ASSERT_TRUE(quantise(format, gradient, state, parts.records[w]));
    }
    std::vector<std::uint8_t> average(format.bytes(size));
    ASSERT_TRUE(average_quantised(format, parts.pointers, size, states[1], average));
    std::vector<float> result(size);
    dequantise(format, average, result);
    for (std::size_t i = 0; i < size; ++i) {
      missing[i] -= kWorkers * double{result[i]};
      for (const auto& state : states) missing[i] -= state[i];
      ASSERT_NEAR(missing[i], 0, 1e-5) << i;
    }
  }
}

TEST(QuantFormat, RatesCountTheScales) {
  const std::size_t size = 1 << 20;
  const auto rate = [&](QuantFormat format) { return 4.0 * size / format.bytes(size); };
  EXPECT_NEAR(rate({8, 256}), 3.97, 0.005);
  EXPECT_NEAR(rate({4, 64}), 7.53, 0.005);
  EXPECT_NEAR(rate({2, 64}), 14.22, 0.005);
}

}  // namespace
}  // namespace gradwire::kernels
