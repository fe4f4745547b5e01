#include "kernels/add_scaled.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradwire::kernels {
namespace {

TEST(AddScaled, RoundsTheProductBeforeTheSum) {
  // (1 + 2^-12)² is 1 + 2^-11 + 2^-24, of which the product keeps all but the last.
  const float factor = 1 + 0x1p-12F;
  const std::vector<float> a(37, -1.0F);
  const std::vector<float> b(37, 1 + 0x1p-12F);
  std::vector<float> sum(37);
  add_scaled(a, factor, b, sum);
  EXPECT_EQ(sum, std::vector<float>(37, 0x1p-11F));
}

TEST(AddScaled, WritesIntoEitherOperand) {
  std::vector<float> a = {1, 2, 3};
  std::vector<float> b = {10, 20, 30};
  add_scaled(a, 0.5F, b, b);
  EXPECT_EQ(b, (std::vector<float>{6, 12, 18}));
  add_scaled(a, -2, b, a);
  EXPECT_EQ(a, (std::vector<float>{-11, -22, -33}));
}

}  // namespace
}  // namespace gradwire::kernels
