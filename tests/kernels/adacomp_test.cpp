#include "kernels/adacomp.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "adacomp_reference.h"
#include "every_target.h"
#include "kernels/roll_back.h"

namespace gradwire::kernels {
namespace {

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

struct Selected {
  AdacompBlock block;
  std::vector<std::uint32_t> selection;
};

// Calls the kernel at an odd offset in memory and checks guards around everything that it writes.
Selected select(const std::vector<float>& gradient, std::vector<float>& residual,
                std::size_t bin_length) {
  const std::size_t n = gradient.size();
  std::vector<float> g(n + 2, 7.0F), e(n + 2, 7.0F);
  std::copy(gradient.begin(), gradient.end(), g.begin() + 1);
  std::copy(residual.begin(), residual.end(), e.begin() + 1);
  std::vector<std::uint32_t> selection(n + 1, 0xDEADBEEF);
  Selected result;
  result.block = adacomp_select(std::span(g).subspan(1, n), std::span(e).subspan(1, n), bin_length,
                                selection.data());
  EXPECT_EQ(e.front(), 7.0F);
  EXPECT_EQ(e.back(), 7.0F);
  EXPECT_EQ(selection.back(), 0xDEADBEEF);
  residual.assign(e.begin() + 1, e.end() - 1);
  selection.resize(result.block.selected);
  result.selection = selection;
  return result;
}

void expect_as_reference(const std::vector<float>& gradient, const std::vector<float>& residual,
                         std::size_t bin_length) {
  auto expected_residual = residual;
  const auto expected = adacomp_select_reference(gradient, expected_residual, bin_length);
  auto actual_residual = residual;
  const auto actual = select(gradient, actual_residual, bin_length);
  EXPECT_EQ(actual.block.done, expected.block.done);
  EXPECT_EQ(actual.block.gmax_sum, expected.block.gmax_sum);
  EXPECT_EQ(actual.selection, expected.selection);
  EXPECT_EQ(bits(actual_residual), bits(expected_residual));
}

std::vector<float> gaussian(std::size_t n, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(Adacomp, SelectsAsTheReference) {
  on_every_target([] {
    for (const std::size_t bin :
         {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 50, 63, 64, 65, 70, 500, 4096}) {
      for (const std::size_t n : {0, 1, 2, 3, 7, 8, 9, 49, 50, 51, 99, 127, 500, 1003, 5001}) {
        SCOPED_TRACE(testing::Message() << "bin " << bin << ", " << n << " elements");
        expect_as_reference(gaussian(n, 0.3F, 1), gaussian(n, 1.0F, 2), bin);
        expect_as_reference(gaussian(n, 1.0F, 3), std::vector<float>(n, 0.0F), bin);
        expect_as_reference(gaussian(n, 0.0F, 3), gaussian(n, 1.0F, 4), bin);
      }
    }
  });
}

TEST(Adacomp, SelectsAsTheReferenceOnSpecialValues) {
  on_every_target([] {
    const float denormal = std::numeric_limits<float>::denorm_min();
    const float huge = std::numeric_limits<float>::max();
    const std::vector<float> special{0.0F,  -0.0F,    denormal,  -denormal, 1.0F,
                                     -1.0F, huge / 2, -huge / 2, 1e-30F};
    std::mt19937 random(5);
    std::uniform_int_distribution<std::size_t> pick(0, special.size() - 1);
    for (const std::size_t bin : {1, 3, 8, 50}) {
      for (int repetition = 0; repetition < 50; ++repetition) {
        std::vector<float> gradient(211), residual(211);
        for (float& value : gradient) value = special[pick(random)];
        for (float& value : residual) value = special[pick(random)];
        expect_as_reference(gradient, residual, bin);
      }
    }
    // G is zero in the whole bin and H is not. Nothing may be sent.
    expect_as_reference(std::vector<float>(100, -2.0F), std::vector<float>(100, 2.0F), 50);
    expect_as_reference(std::vector<float>(100, -0.0F), std::vector<float>(100, -0.0F), 50);
    expect_as_reference(std::vector<float>(100, 1.5F), std::vector<float>(100, 0.0F), 50);
  });
}

TEST(Adacomp, AnAllZeroBinSendsNothing) {
  on_every_target([] {
    std::vector<float> gradient(100, -2.0F), residual(100, 2.0F);
    EXPECT_EQ(select(gradient, residual, 50).block.selected, 0U);
    EXPECT_EQ(residual, std::vector<float>(100, 0.0F));
  });
}

TEST(Adacomp, LeavesEverythingFromANonFiniteBinOnUntouched) {
  on_every_target([] {
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::size_t bin : {3, 8, 50, 70}) {
        for (const std::size_t at : {0, 1, 49, 50, 97, 98, 99, 147, 149, 160}) {
          auto gradient = gaussian(161, 1.0F, 6);
          gradient[at] = bad;
          const auto before = gaussian(161, 1.0F, 7);
          auto residual = before;
          const auto result = select(gradient, residual, bin);
          EXPECT_EQ(result.block.done, at / bin * bin);
          for (std::size_t i = result.block.done; i < 161; ++i) ASSERT_EQ(residual[i], before[i]);
          for (std::size_t i = 0; i < 161; ++i) ASSERT_TRUE(std::isfinite(residual[i]));
          expect_as_reference(gradient, before, bin);
        }
      }
    }
    // Both numbers are finite, but their sum is not.
    const float huge = std::numeric_limits<float>::max();
    expect_as_reference(std::vector<float>(20, huge), std::vector<float>(20, huge), 10);
  });
}

TEST(Adacomp, DoesNotDependOnTheSplitIntoBlocks) {
  on_every_target([] {
    const std::size_t n = 10'023, bin = 50;
    const auto gradient = gaussian(n, 0.5F, 8);
    const auto before = gaussian(n, 1.0F, 9);
    auto whole = before;
    const auto expected = select(gradient, whole, bin);
    auto split = before;
    std::vector<std::uint32_t> selection, scratch(n);
    for (const std::size_t begin : {std::size_t{5000}, std::size_t{0}}) {
      const std::size_t count = begin == 0 ? 5000 : n - begin;
      const auto block =
          adacomp_select(std::span(gradient).subspan(begin, count),
                         std::span(split).subspan(begin, count), bin, scratch.data());
      std::vector<std::uint32_t> part;
      for (std::size_t i = 0; i < block.selected; ++i) {
        part.push_back(scratch[i] + static_cast<std::uint32_t>(2 * begin));
      }
      selection.insert(selection.begin(), part.begin(), part.end());
    }
    EXPECT_EQ(selection, expected.selection);
    EXPECT_EQ(split, whole);
  });
}

// The values are small multiples of a power of two, so every sum is exact.
TEST(Adacomp, LosesNothingAndUndoesAStep) {
  on_every_target([] {
    const std::size_t n = 1003;
    std::mt19937 random(10);
    std::uniform_int_distribution<int> integer(-1000, 1000);
    std::vector<float> gradient(n), before(n);
    for (float& value : gradient) value = static_cast<float>(integer(random)) / 64;
    for (float& value : before) value = static_cast<float>(integer(random)) / 64;
    auto residual = before;
    const auto result = select(gradient, residual, 50);
    ASSERT_GT(result.block.selected, 0U);
    const float scale = 12.5F;
    add_signed(residual, result.selection, -scale);
    std::vector<float> sent(n, 0.0F);
    add_signed(sent, result.selection, scale);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sent[i] + residual[i], gradient[i] + before[i]);
    add_signed(residual, result.selection, scale);
    roll_back(gradient, residual);
    EXPECT_EQ(residual, before);
  });
}

TEST(AddSigned, FollowsTheSignBit) {
  std::vector<float> values(100, 1.0F);
  std::vector<std::uint32_t> selection;
  for (std::uint32_t i = 0; i < 100; i += 2) selection.push_back(2 * i + (i % 3 == 0 ? 1 : 0));
  add_signed(values, selection, 0.25F);
  add_signed(values, {}, 0.25F);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(values[i], i % 2 != 0 ? 1.0F : i % 3 == 0 ? 0.75F : 1.25F);
  }
}

}  // namespace
}  // namespace gradwire::kernels
