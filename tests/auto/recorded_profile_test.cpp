#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "gradient_feeder.h"
#include "methods/registry.h"
#include "planner/profile_json.h"
#include "world.h"

namespace gradwire {
namespace {

using nlohmann::json;

const std::vector<std::vector<int64_t>> kShapes = {{64, 64}, {8, 4, 3}, {0}, {64}};

json profile_after(const Group& group, const Options& options, int steps) {
  DistributedDataParallel ddp(GradientFeeder(kShapes), group, options);
  for (int step = 0; step < steps; ++step) {
    results_of_step(ddp, gradients_for(group->getRank(), step, kShapes));
  }
  return json::parse(ddp.profile());
}

TEST(RecordedProfile, IsOneThatThePlannerReads) {
  const auto profiles = run_world<json>(2, [](const Group& group) {
    return profile_after(group, {.method = "acpsgd", .rank = 2, .min_ratio = 0.0}, 5);
  });
  const planner::Profile profile = planner::profile_from_json(profiles[0], method_models());
  ASSERT_EQ(profile.parameters.size(), 3U);  // the empty one is none
  EXPECT_EQ(profile.parameters[1].kind(), "conv");
  EXPECT_EQ(profile.measured->choice.model->name, "acpsgd");
  EXPECT_EQ(profile.measured->choice.number("rank"), 2);
  EXPECT_EQ(profile.measured->choice.number("min_ratio"), 0);
  EXPECT_EQ(profile.measured->workers, 2);
  EXPECT_GT(profile.forward_seconds, 0);
  EXPECT_GT(profile.backward_seconds, 0);
  EXPECT_GT(profile.buckets[0].measured.encode, 0);
  EXPECT_FALSE(profiles[0].contains("rates"));
}

TEST(RecordedProfile, LeavesOutTheStepsBeforeCompression) {
  const auto profiles = run_world<json>(2, [](const Group& group) {
    return profile_after(group, {.method = "half", .start_after = 4}, 6);
  });
  EXPECT_EQ(profiles[0]["measured"]["steps"], 2);
}

TEST(RecordedProfile, NeedsAStep) {
  const auto outcomes = run_world_with_errors<json>(
      2, [](const Group& group) { return profile_after(group, {.method = "half"}, 0); });
  EXPECT_THROW(std::rethrow_exception(outcomes[1].error), std::runtime_error);
}

}  // namespace
}  // namespace gradwire
