#include "kernels/topk.h"

#include <gtest/gtest.h>

#include <vector>

#include "every_target.h"
#include "half_reference.h"
#include "inputs.h"
#include "kernels/roll_back.h"
#include "topk_reference.h"

namespace gradwire::kernels {
namespace {

using Indices = std::vector<std::uint32_t>;

// Owns the memory for the candidates of one range.
struct Room {
  explicit Room(std::size_t capacity) : indices(capacity), magnitudes(capacity) {}
  Candidates empty() { return {indices, magnitudes}; }
  Indices indices;
  Indices magnitudes;
};

std::vector<float> sum(std::span<const float> a, std::span<const float> b) {
  std::vector<float> total(a.begin(), a.end());
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += b[i];
  return total;
}

// Runs the whole encoder on one range. `sufficed` receives whether the candidates sufficed.
Indices encode(std::span<const float> gradient, std::span<float> residual, std::size_t k,
               bool* sufficed = nullptr) {
  const std::size_t capacity = candidate_capacity(gradient.size(), k);
  Room room(capacity);
  Candidates candidates = room.empty();
  float floor = FloatLimits::infinity();
  if (capacity > 0) {
    Indices sample(kTopkSample);
    floor = estimate_floor(gradient, residual, k, sample);
  }
  EXPECT_EQ(accumulate(gradient, residual, 0, floor, candidates), gradient.size());
  Indices selected(k);
  const bool enough = select_largest({&candidates, 1}, residual, selected);
  if (sufficed != nullptr) *sufficed = enough;
  return selected;
}

TEST(Topk, SelectsExactlyTheLargest) {
  for (std::size_t size : kSizes) {
    if (size == 0) continue;
    const auto gradient = gradient_like(size, 1);
    const auto residual = gradient_like(size, 2);
    const auto total = sum(gradient, residual);
    for (std::size_t k : {std::size_t{1}, size / 1000, size / 100, size / 10, size / 2, size}) {
      k = std::max<std::size_t>(k, 1);
      const Indices expected = reference::largest(total, k);
      on_every_target([&] {
        Unaligned<float> moved(gradient);
        Unaligned<float> state(residual);
        EXPECT_EQ(encode(moved.span(), state.span(), k), expected) << k << " of " << size;
        EXPECT_TRUE(std::ranges::equal(state.span(), total));
      });
    }
  }
}

TEST(Topk, CandidatesSufficeForOrdinaryGradients) {
  for (std::size_t k : {300UL, 3000UL}) {
    const auto gradient = gradient_like(300000, 3);
    const auto before = gradient_like(300000, 4);
    auto residual = before;
    bool sufficed = false;
    EXPECT_EQ(encode(gradient, residual, k, &sufficed),
              reference::largest(sum(gradient, before), k));
    EXPECT_TRUE(sufficed) << k;
  }
}

TEST(Topk, TheFloorNeverChangesTheSelection) {
  const auto gradient = gradient_like(50000, 5);
  const Indices expected = reference::largest(gradient, 500);
  for (float floor : {0.0F, 0.75F, 1.0F, 2.0F, 2.5F, 10.0F, FloatLimits::infinity()}) {
    for (std::size_t capacity : {0UL, 100UL, 1000UL, 50000UL}) {
      on_every_target([&] {
        std::vector<float> residual(gradient.size());
        Room room(capacity);
        Candidates candidates = room.empty();
        accumulate(gradient, residual, 0, floor, candidates);
        Indices selected(500);
        select_largest({&candidates, 1}, residual, selected);
        EXPECT_EQ(selected, expected) << floor << ", room for " << capacity;
      });
    }
  }
}

TEST(Topk, SplittingAtBlocksChangesNothing) {
  const auto gradient = gradient_like(10 * kTopkBlock + 5, 6);
  const Indices expected = reference::largest(gradient, 400);
  const std::span<const float> all(gradient);
  for (std::size_t cut : {kTopkBlock, 7 * kTopkBlock}) {
    std::vector<float> residual(gradient.size());
    Room rooms[] = {Room(2000), Room(2000)};
    Candidates ranges[] = {rooms[0].empty(), rooms[1].empty()};
    accumulate(all.subspan(cut), std::span(residual).subspan(cut), static_cast<std::uint32_t>(cut),
               2.2F, ranges[1]);
    accumulate(all.first(cut), std::span(residual).first(cut), 0, 2.2F, ranges[0]);
    Indices selected(400);
    EXPECT_TRUE(select_largest(ranges, residual, selected));
    EXPECT_EQ(selected, expected);
  }
}

TEST(Topk, AllEqualSelectsTheLowestIndices) {
  for (float value : {0.0F, -0.0F, -1.0F, FloatLimits::denorm_min(), FloatLimits::max()}) {
    on_every_target([&] {
      const std::vector<float> gradient(100000, value);
      std::vector<float> residual(gradient.size());
      Indices expected(1000);
      std::iota(expected.begin(), expected.end(), 0U);
      EXPECT_EQ(encode(gradient, residual, 1000), expected) << value;
    });
  }
}

TEST(Topk, FewerNonZerosThanWanted) {
  std::vector<float> gradient(100000, 0.0F);
  for (std::size_t i = 500; i < gradient.size(); i += 997) gradient[i] = -1.0F;
  std::vector<float> residual(gradient.size());
  EXPECT_EQ(encode(gradient, residual, 1000), reference::largest(gradient, 1000));
}

TEST(Topk, ScratchStaysWithinFivePercent) {
  for (std::size_t size : {1000UL, 32768UL, 1000000UL, 25000000UL}) {
    for (std::size_t k : {1UL, size / 1000, size / 100, size / 10, size}) {
      const std::size_t bytes = 8 * candidate_capacity(size, k);
      EXPECT_LE(bytes * 20, size * sizeof(float)) << k << " of " << size;
    }
  }
}

TEST(Accumulate, LeavesTheResidualAloneFromTheFirstBadBlockOn) {
  for (float bad : {FloatLimits::infinity(), -FloatLimits::infinity(), FloatLimits::quiet_NaN()}) {
    for (std::size_t at : {std::size_t{0}, kTopkBlock + 13, 2 * kTopkBlock + 40}) {
      auto gradient = gradient_like(2 * kTopkBlock + 41, 7);
      gradient[at] = bad;
      const auto before = gradient_like(gradient.size(), 8);
      on_every_target([&] {
        auto state = before;
        Room room(state.size());
        Candidates candidates = room.empty();
        const std::size_t done = accumulate(gradient, state, 0, 1.0F, candidates);
        ASSERT_EQ(done, at / kTopkBlock * kTopkBlock);
        const auto reach = [](float value) { return std::abs(value) >= 1.0F; };
        const auto updated = std::span(state).first(done);
        ASSERT_EQ(candidates.count,
                  static_cast<std::size_t>(std::ranges::count_if(updated, reach)));
        EXPECT_TRUE(std::equal(state.begin() + static_cast<std::ptrdiff_t>(done), state.end(),
                               before.begin() + static_cast<std::ptrdiff_t>(done)));
        roll_back(std::span(gradient).first(done), std::span(state).first(done));
        for (std::size_t i = 0; i < done; ++i) ASSERT_NEAR(state[i], before[i], 1e-6F) << i;
      });
    }
  }
}

TEST(Accumulate, RefusesAnOverflow) {
  on_every_target([&] {
    const std::vector<float> gradient(70, FloatLimits::max());
    for (std::size_t at : {0UL, 31UL, 69UL}) {
      std::vector<float> state(70, 0.0F);
      state[at] = FloatLimits::max();
      const auto before = state;
      Candidates none;
      EXPECT_EQ(accumulate(gradient, state, 0, 1.0F, none), 0U);
      EXPECT_EQ(state, before);
    }
  });
}

TEST(Take, MovesTheSelected) {
  const auto before = gradient_like(10000, 9);
  const Indices indices = reference::largest(before, 321);
  auto residual = before;
  std::vector<float> values(indices.size());
  take(residual, indices, values);
  auto restored = residual;
  for (std::size_t s = 0; s < indices.size(); ++s) {
    EXPECT_EQ(residual[indices[s]], 0.0F);
    restored[indices[s]] += values[s];
  }
  EXPECT_EQ(restored, before);
}

TEST(TakeRounded, KeepsWhatTheRoundingLeft) {
  for (HalfFormat format : {HalfFormat::kBfloat16, HalfFormat::kFloat16}) {
    auto before = gradient_like(10000, 10);
    before[17] = FloatLimits::max();
    before[18] = -FloatLimits::max();
    before[19] = 70000.0F;
    const Indices indices = reference::largest(before, 777);
    on_every_target([&] {
      auto residual = before;
      std::vector<std::uint16_t> values(indices.size());
      take_rounded(format, residual, indices, values);
      for (std::size_t s = 0; s < indices.size(); ++s) {
        const std::uint32_t at = indices[s];
        const double sent = reference::value_of(format, values[s]);
        ASSERT_TRUE(std::isfinite(sent) && std::isfinite(residual[at])) << before[at];
        ASSERT_EQ(static_cast<float>(sent + residual[at]), before[at]);
        if (std::abs(before[at]) <= 65504) {
          ASSERT_LE(std::abs(residual[at]), std::abs(sent) / 256);
        }
      }
    });
  }
}

TEST(AddScaled, RoundsTheProductAndTheSum) {
  std::vector<float> target{1.0F, 2.0F, 3.0F};
  const Indices indices{0, 2};
  const std::vector<float> values{0.1F, 1.0F};
  const float third = 1.0F / 3;
  add_scaled(target, indices, values, third);
  const float product = 0.1F * third;
  EXPECT_EQ(target, (std::vector<float>{1.0F + product, 2.0F, 3.0F + third}));
}

}  // namespace
}  // namespace gradwire::kernels
