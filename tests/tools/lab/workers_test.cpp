#include "lab/workers.h"

#include <gtest/gtest.h>

namespace gradwire::lab {
namespace {

TEST(WorstStatus, IsTheLargest) {
  EXPECT_EQ(worst_status({{0, false}, {3, false}, {1, false}}), 3);
  EXPECT_EQ(worst_status({{0, false}}), 0);
}

TEST(WorstStatus, LeavesOutWhoWasEndedBecauseOfAnother) {
  EXPECT_EQ(worst_status({{3, false}, {143, true}}), 3);
}

}  // namespace
}  // namespace gradwire::lab
