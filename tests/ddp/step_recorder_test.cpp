#include "ddp/step_recorder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace gradwire {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

void compute(std::chrono::milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

class StepRecorderTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

// Another thread on its processor is to a thread what sleep is: it does not run.
TEST_F(StepRecorderTest, LeavesOutOfBackwardWhatOtherThreadsTookOfIt) {
  const at::Tensor buffer = at::zeros({10});
  StepRecorder recorder({});
  for (int step = 0; step < 3; ++step) {
    recorder.begin_step();
    recorder.bucket_is_ready(buffer);
    compute(20ms);
    std::this_thread::sleep_for(80ms);
    recorder.bucket_is_ready(buffer);
  }
  const StepRecorder::Medians medians = recorder.medians({10, 10});
  ASSERT_EQ(medians.steps, 3);
  EXPECT_LE(medians.buckets[1].ready_seconds, 0.060);
  EXPECT_GE(medians.lost_seconds, 0.075);
}

TEST_F(StepRecorderTest, LeavesOutOfBackwardWhatEncodingTook) {
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
