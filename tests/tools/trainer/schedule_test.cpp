#include "trainer/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradwire::trainer {
namespace {

Settings settings_with(int64_t steps, double warmup_epochs, bool cosine) {
  Settings settings;
  settings.lr = 0.5;
  settings.steps = steps;
  settings.warmup_epochs = warmup_epochs;
  settings.cosine = cosine;
  return settings;
}

std::vector<double> rates(const Settings& settings, int64_t steps_per_epoch) {
  const Length length = length_of(settings, steps_per_epoch);
  std::vector<double> all;
  for (int64_t step = 0; step < length.steps; ++step) {
    all.push_back(learning_rate(settings, length, step));
  }
  return all;
}

TEST(Length, EpochsCoverAllStepsOnce) {
  for (const int64_t steps : {1, 9, 10, 11, 95}) {
    const Length length = length_of(settings_with(steps, 0, false), 10);
    int64_t covered = 0;
    for (int64_t epoch = 1; epoch <= length.epochs(); ++epoch) {
      EXPECT_EQ(length.begin_of(epoch), covered);
      EXPECT_GT(length.end_of(epoch), covered);
      for (; covered < length.end_of(epoch); ++covered) {
        EXPECT_EQ(length.epoch_of(covered), epoch);
      }
    }
    EXPECT_EQ(covered, steps);
  }
}

TEST(Length, EpochsCountWithoutSteps) {
  Settings settings;
  settings.epochs = 3;
  EXPECT_EQ(length_of(settings, 10).steps, 30);
}

TEST(Length, IsOpenIfItIsATime) {
  Settings settings = settings_with(0, 0.5, false);
  settings.seconds = 15;
  const Length length = length_of(settings, 10);
  EXPECT_GT(length.epochs(), int64_t{1} << 50);
  EXPECT_EQ(length.end_of(1000), 10'000);
  EXPECT_EQ(learning_rate(settings, length, 1), 0.1);
  EXPECT_EQ(learning_rate(settings, length, 1'000'000), 0.5);
}

TEST(LearningRate, RisesFromZeroDuringTheWarmUpThenStays) {
  const std::vector<double> all = rates(settings_with(40, 0.8, false), 20);
  for (size_t step = 0; step < 16; ++step) {
    EXPECT_DOUBLE_EQ(all[step], 0.5 * static_cast<double>(step) / 16);
  }
  for (size_t step = 16; step < 40; ++step) EXPECT_EQ(all[step], 0.5);
}

TEST(LearningRate, CosineFallsFromTheWholeRateToZero) {
  for (const double warmup_epochs : {0.0, 0.5, 1.5}) {
    const Settings settings = settings_with(70, warmup_epochs, true);
    const Length length = length_of(settings, 20);
    const auto warmup = static_cast<int64_t>(20 * warmup_epochs);
    EXPECT_EQ(learning_rate(settings, length, warmup), 0.5);
    EXPECT_NEAR(learning_rate(settings, length, (warmup + 70) / 2), 0.25, 1e-12);
    EXPECT_NEAR(learning_rate(settings, length, 70), 0, 1e-12);
    const std::vector<double> all = rates(settings, 20);
    for (size_t step = static_cast<size_t>(warmup) + 1; step < all.size(); ++step) {
      EXPECT_LT(all[step], all[step - 1]);
      EXPECT_GT(all[step], 0);
    }
  }
}

TEST(LearningRate, CosineBeginsWithTheSameWarmUp) {
  const std::vector<double> with = rates(settings_with(40, 0.8, true), 20);
  const std::vector<double> without = rates(settings_with(40, 0.8, false), 20);
  for (size_t step = 0; step < 16; ++step) EXPECT_EQ(with[step], without[step]);
}

TEST(LearningRate, TrainingMayEndDuringTheWarmUp) {
  for (const double warmup_epochs : {0.5, 2.0}) {
    const std::vector<double> all = rates(settings_with(10, warmup_epochs, true), 20);
    for (size_t step = 1; step < all.size(); ++step) EXPECT_GT(all[step], all[step - 1]);
  }
}

TEST(LearningRate, IsMultipliedByDecayAfterEachNamedEpoch) {
  Settings settings = settings_with(60, 0, false);
  settings.decay_at = {1, 2};
  settings.decay = 0.5;
  const std::vector<double> all = rates(settings, 20);
  for (size_t step = 0; step < all.size(); ++step) {
    EXPECT_DOUBLE_EQ(all[step], step < 20 ? 0.5 : step < 40 ? 0.25 : 0.125);
  }
}

}  // namespace
}  // namespace gradwire::trainer
