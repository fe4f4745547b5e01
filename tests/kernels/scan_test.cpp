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

}  // namespace
}  // namespace gradwire::kernels
