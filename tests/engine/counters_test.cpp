#include "engine/counters.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gradwire {
namespace {

Counts step_of(int64_t bytes) {
  Counts counts;
  counts.gradient_bytes = 4 * bytes;
  counts.payload_bytes = bytes;
  counts.sent_bytes = bytes;
  counts.dense_bytes = 2 * bytes;
  counts.by_kind[1] = {.gradient_bytes = 4 * bytes, .payload_bytes = bytes};
  counts.wait_seconds = 0.5;
  return counts;
}

TEST(Counters, TellTheLast32StepsApart) {
  Counters counters("topk");
  for (int64_t step = 1; step <= 100; ++step) {
    counters.begin_step();
    counters.add(step_of(step));
  }
  const Stats stats = counters.stats();
  EXPECT_EQ(stats.steps, 100);
  EXPECT_EQ(stats.payload_bytes, 100 * 101 / 2);
  EXPECT_EQ(stats.recent.steps, 32);
  EXPECT_EQ(stats.recent.payload_bytes, 32 * (69 + 100) / 2);
  EXPECT_EQ(stats.recent.by_kind[1].gradient_bytes, 4 * stats.recent.payload_bytes);
  EXPECT_EQ(stats.recent.wait_seconds, 16);
  EXPECT_EQ(stats.recent.code_ratio(), 4);
}

TEST(Counters, HaveNothingRecentBeforeTheFirstStepOrAfterAResume) {
  Counters counters("topk");
  EXPECT_EQ(counters.stats().recent.steps, 0);
  counters.begin_step();
  counters.add(step_of(7));
  counters.resume_at(50);
  EXPECT_EQ(counters.stats().steps, 50);
  EXPECT_EQ(counters.stats().recent.steps, 0);
  EXPECT_EQ(counters.stats().recent.payload_bytes, 0);
  counters.begin_step();
  counters.add(step_of(3));
  EXPECT_EQ(counters.stats().steps, 51);
  EXPECT_EQ(counters.stats().recent.payload_bytes, 3);
}

// The plan of a model with 400 parameters is copied in the time that is allowed.
TEST(Counters, AreReadInMicroseconds) {
  Counters counters("topk");
  Counters::Plan plan;
  for (int i = 0; i < 400; ++i) plan["layers." + std::to_string(i) + ".weight"] = "topk density=1";
  counters.set_plan(plan, LossClass::delayed);
  double fastest = 1;
  for (int i = 0; i < 100; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Stats stats = counters.stats();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(stats.plan.size(), 400U);
    fastest = std::min(fastest, taken.count());
  }
  EXPECT_LT(fastest, 1e-3);
}

}  // namespace
}  // namespace gradwire
