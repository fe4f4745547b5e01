#include "kernels/scan.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gradwire::kernels {
namespace {

TEST(AllZero, CountsNegativeZeroAsZero) {
  EXPECT_TRUE(all_zero(std::vector<float>{0.0F, -0.0F, 0.0F}));
  EXPECT_TRUE(all_zero({}));
}

TEST(AllZero, FindsAnythingElse) {
  for (float value :
       {1.0F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(1000, 0.0F);
    values.back() = value;
    EXPECT_FALSE(all_zero(values)) << value;
  }
}

TEST(AllFinite, AcceptsEveryFiniteNumber) {
  using Limits = std::numeric_limits<float>;
  EXPECT_TRUE(all_finite(
      std::vector<float>{0.0F, -0.0F, Limits::max(), Limits::lowest(), Limits::denorm_min()}));
  EXPECT_TRUE(all_finite({}));
}

TEST(AllFinite, FindsASingleElementThatIsNot) {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    for (const std::size_t at : {0, 13, 999}) {
      std::vector<float> values(1000, 1.0F);
      values[at] = bad;
      EXPECT_FALSE(all_finite(values)) << bad << " at " << at;
    }
  }
}

}  // namespace
}  // namespace gradwire::kernels
