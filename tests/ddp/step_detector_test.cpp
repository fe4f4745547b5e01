#include "ddp/step_detector.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradwire {
namespace {

constexpr int64_t kElements = 10;  // of every bucket

// Which of these buckets begin a step, none of them ever being completed.
std::vector<bool> begins(StepDetector& detector, const std::vector<size_t>& orders) {
  std::vector<bool> found;
  for (const size_t order : orders) found.push_back(detector.begins_step(order, kElements));
  return found;
}

using Flags = std::vector<bool>;

TEST(StepDetector, SeesTheOrderOfBuckets) {
  StepDetector detector(4 * kElements);
  EXPECT_EQ(begins(detector, {0, 1, 2, 3, 0, 1, 2, 3}),
            Flags({true, false, false, false, true, false, false, false}));
}

TEST(StepDetector, SeesABackwardThatWasCutShort) {
  StepDetector detector(4 * kElements);
  EXPECT_EQ(begins(detector, {0, 1, 0, 1, 2, 3}), Flags({true, false, true, false, false, false}));
  EXPECT_EQ(begins(detector, {1, 0}), Flags({true, true}));
}

TEST(StepDetector, SeesThatAllGradientsHaveCome) {
  StepDetector detector(2 * kElements);
  EXPECT_EQ(begins(detector, {0, 1, 2, 3}), Flags({true, false, true, false}));
}

TEST(StepDetector, SeesBucketsAfterCompletedOnes) {
  StepDetector detector(4 * kElements);
  EXPECT_EQ(begins(detector, {0, 1}), Flags({true, false}));
  detector.bucket_is_complete();
  detector.bucket_is_complete();
  EXPECT_EQ(begins(detector, {2, 3}), Flags({true, false}));  // the first two were left out
}

TEST(StepDetector, LetsAWorkerThatHasJoinedCompleteEachBucketAtOnce) {
  StepDetector detector(3 * kElements);
  for (int step = 0; step < 2; ++step) {
    for (size_t bucket = 0; bucket < 3; ++bucket) {
      EXPECT_EQ(detector.begins_step(bucket, kElements, /*has_joined=*/true), bucket == 0);
      detector.bucket_is_complete();
    }
  }
}

TEST(StepDetector, BeginsAnewAfterAReset) {
  StepDetector detector(4 * kElements);
  EXPECT_EQ(begins(detector, {0, 1}), Flags({true, false}));
  detector.reset();
  EXPECT_EQ(begins(detector, {2}), Flags({true}));
}

}  // namespace
}  // namespace gradwire
