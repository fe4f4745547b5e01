#include "auto/step_recorder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace gradwire {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

void compute(std::chrono::milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

void run_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);  // of this thread, and of those that it starts
}

TEST(StepRecorder, LeavesOutOfBackwardWhatOtherThreadsTookOfIt) {
  StepRecorder::Medians medians;
  std::thread([&] {
    run_on_one_processor();
    std::atomic<bool> go_on = true;
    std::thread other([&] {
      while (go_on) {
      }
    });
    const at::Tensor buffer = at::zeros({10});
    StepRecorder recorder({});
    for (int step = 0; step < 3; ++step) {
      recorder.begin_step();
      recorder.bucket_is_ready(buffer);
      compute(200ms);  // by the clock on the wall: about half of it is the other's
      recorder.bucket_is_ready(buffer);
    }
    go_on = false;
    other.join();
    medians = recorder.medians({10, 10});
  }).join();
  ASSERT_EQ(medians.steps, 3);
  EXPECT_GE(medians.lost_seconds, 0.05);
  EXPECT_LE(medians.buckets[1].ready_seconds, 0.15);
}

TEST(StepRecorder, KnowsThatSleepIsPartOfBackward) {
  const at::Tensor buffer = at::zeros({10});
  StepRecorder recorder({});
  recorder.begin_step();
  recorder.bucket_is_ready(buffer);
  std::this_thread::sleep_for(50ms);
  recorder.bucket_is_ready(buffer);
  EXPECT_GE(recorder.medians({10, 10}).buckets[1].ready_seconds, 0.045);
}

TEST(StepRecorder, LeavesOutOfBackwardWhatEncodingTook) {
  const at::Tensor buffer = at::zeros({10});
  StepRecorder recorder({});
  recorder.begin_step();
  for (int bucket = 0; bucket < 2; ++bucket) {
    recorder.bucket_is_ready(buffer);
    compute(30ms);
    recorder.bucket_is_launched();
  }
  const StepRecorder::Medians medians = recorder.medians({10, 10});
  EXPECT_GE(medians.buckets[0].coding.encode, 0.029);
  EXPECT_LE(medians.buckets[1].ready_seconds, 0.020);
}

}  // namespace
}  // namespace gradwire
