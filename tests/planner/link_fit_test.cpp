#include "planner/link_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace gradwire::planner {
namespace {

constexpr Link kLink = {.latency = 50e-6, .bandwidth = 125e6};

// What a perfect network would show, each time off by as much as `noise` says.
template <typename Noise>
std::vector<Timing> timings_of(Collective collective, int64_t workers, const Noise& noise) {
  const Network network = {
      .workers = workers, .between_nodes = kLink, .all_reduce = AllReduce::ring};
  std::vector<Timing> timings;
  for (double bytes = 1024; bytes <= 16 * 1024 * 1024; bytes *= 4) {
    Timing& timing = timings.emplace_back(Timing{bytes, {}});
    for (int i = 0; i < 9; ++i) {
      timing.seconds.push_back(cost_of(collective, bytes, network).alone() * noise(i));
    }
  }
  return timings;
}

TEST(LinkFit, FindsLatencyAndBandwidthOfEveryCollective) {
  for (const auto collective :
       {Collective::all_reduce, Collective::all_gather, Collective::all_to_all}) {
    for (const int64_t workers : {2, 5, 32}) {
      const auto timings = timings_of(collective, workers, [](int) { return 1.0; });
      const CollectiveFit fit = fit_collective(collective, workers, timings);
      EXPECT_NEAR(fit.latency, kLink.latency, 1e-9);
      EXPECT_NEAR(fit.bandwidth, kLink.bandwidth, 1);
      EXPECT_NEAR(fit.residual, 0, 1e-9);
      EXPECT_NEAR(fit.r_squared, 1, 1e-9);
      EXPECT_NEAR(fit.spread, 0, 1e-9);
    }
  }
}

TEST(LinkFit, IsNotMisledByFewInterruptions) {
  const auto timings =
      timings_of(Collective::all_reduce, 4, [](int i) { return i % 4 == 3 ? 10.0 : 1.0; });
  const CollectiveFit fit = fit_collective(Collective::all_reduce, 4, timings);
  EXPECT_NEAR(fit.bandwidth, kLink.bandwidth, 0.001 * kLink.bandwidth);
}

TEST(LinkFit, SaysHowNoisyTheTimesWere) {
  const auto timings =
      timings_of(Collective::all_gather, 4, [](int i) { return 1 + 0.1 * (i - 4); });
  const CollectiveFit fit = fit_collective(Collective::all_gather, 4, timings);
  EXPECT_NEAR(fit.spread, 0.4, 1e-6);
  EXPECT_NEAR(fit.bandwidth, kLink.bandwidth, 0.001 * kLink.bandwidth);
}

TEST(LinkFit, SaysWhereNoLineFits) {
  auto timings = timings_of(Collective::all_reduce, 2, [](int) { return 1.0; });
  for (size_t i = 0; i < timings.size(); i += 2) {
    for (double& seconds : timings[i].seconds) seconds *= 1.5;
  }
  const CollectiveFit fit = fit_collective(Collective::all_reduce, 2, timings);
  EXPECT_GT(fit.residual, 0.1);
  EXPECT_LT(fit.r_squared, 0.999);
}

TEST(LinkFit, HasNoNegativeLatency) {
  const std::vector<Timing> timings = {{1000, {0.5}}, {2000, {2}}, {4000, {4}}};
  EXPECT_EQ(fit_collective(Collective::all_reduce, 2, timings).latency, 0);
}

TEST(LinkFit, HasALowestBandwidthWhereTheTimesAreNoise) {
  const std::vector<Timing> noise = {{1000, {3}}, {2000, {2}}, {4000, {1}}};
  const CollectiveFit fit = fit_collective(Collective::all_reduce, 2, noise);
  EXPECT_DOUBLE_EQ(fit.bandwidth, 4000);
  EXPECT_LT(fit.r_squared, 0.1);
}

TEST(LinkFit, NeedsThreeSizes) {
  const std::vector<Timing> two = {{1000, {1}}, {2000, {2}}};
  EXPECT_THROW(fit_collective(Collective::all_reduce, 2, two), std::invalid_argument);
}

}  // namespace
}  // namespace gradwire::planner
