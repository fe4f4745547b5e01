// Methods of several rounds, many buckets, and workers whose timing differs at random: the order of
// the collectives must not depend on it.

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "comm/collectives.h"
#include "gradient_feeder.h"
#include "world.h"

namespace gradwire {
namespace {

void sleep_a_random_moment() {
  thread_local std::mt19937 random(std::hash<std::thread::id>{}(std::this_thread::get_id()));
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

class RandomDelays : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override { set_before_launch(sleep_a_random_moment); }
  void TearDown() override { set_before_launch(nullptr); }
};

INSTANTIATE_TEST_SUITE_P(Workers, RandomDelays,
                         testing::Combine(testing::Values("powersgd"), testing::Values(2, 4, 8)));

TEST_P(RandomDelays, ChangeNothingIn200StepsOf20Buckets) {
  const auto [method, workers] = GetParam();
  constexpr int kSteps = 200;
  const std::vector<std::vector<int64_t>> shapes(20, {24, 16});
  const auto train = [&](const Group& group) {
    // Buckets of one parameter each.
    DistributedDataParallel ddp(GradientFeeder(shapes), group,
                                {.method = method, .rank = 2, .min_ratio = 1},
                                {.bucket_cap_mb = 0.001, .first_bucket_cap_mb = 0.001});
    at::Tensor sum = at::zeros({20, 24, 16});
    for (int step = 0; step < kSteps; ++step) {
      sum += at::stack(results_of_step(ddp, gradients_for(group->getRank(), step, shapes)));
    }
    return sum;
  };
  const auto delayed = run_world<at::Tensor>(workers, train);
  for (const at::Tensor& sum : delayed) EXPECT_TRUE(sum.equal(delayed[0]));
  if (workers > 2) return;  // enough for the time it takes
  set_before_launch(nullptr);
  EXPECT_TRUE(run_world<at::Tensor>(workers, train)[0].equal(delayed[0]));
}

}  // namespace
}  // namespace gradwire
