#include "kernels/simd.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "every_target.h"
#include "without_bf16.h"

namespace gradwire::kernels {
namespace {

TEST(Simd, RunsOnExactlyThePinnedTarget) {
  for (std::int64_t rest = supported_targets(); rest != 0; rest &= rest - 1) {
    ASSERT_TRUE(pin_target(best_target(rest)));
    EXPECT_EQ(current_target(), best_target(rest));
  }
  ASSERT_TRUE(pin_target(best_target(supported_targets())));
}

TEST(Simd, RefusesWhatItCannotRun) {
  const std::int64_t before = current_target();
  EXPECT_FALSE(pin_target(0));
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if ((target & supported_targets()) == 0) {
      EXPECT_FALSE(pin_target(target)) << bit;
    }
  }
  const std::int64_t several = supported_targets();
  if (several != best_target(several)) {
    EXPECT_FALSE(pin_target(several));
  }
  EXPECT_EQ(current_target(), before);
}

TEST(Simd, NamesDiffer) {
  std::set<std::string> names;
  int count = 0;
  on_every_target([&] {
    names.insert(target_name(current_target()));
    ++count;
  });
  EXPECT_EQ(names.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(names.count("Unknown"), 0U);
}

TEST(Simd, OnlyTheBestTargetHasBf16) {
  on_every_target([] {
    if (runs_on_bf16()) {
      EXPECT_EQ(current_target(), best_target(supported_targets()));
    }
  });
}

// Workers with and without bf16 meet at a target that both have.
TEST(Simd, LeavesBf16ForAnotherTarget) {
  const std::int64_t before = current_target();
  {
    const WithoutBf16 without;
    EXPECT_FALSE(runs_on_bf16());
    EXPECT_NE(current_target() & supported_targets(), 0);
  }
  EXPECT_EQ(current_target(), before);
}

TEST(Simd, RestoresTheBestTarget) {
  on_every_target([] {});
  EXPECT_EQ(current_target(), best_target(supported_targets()));
}

}  // namespace
}  // namespace gradwire::kernels
