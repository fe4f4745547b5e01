#include "methods/buffer_pool.h"

#include <gtest/gtest.h>

#include "methods/device_code.h"

namespace gradwire {
namespace {

TEST(BufferPool, KeepsLargeBuffersWhileSmallOnesComeAndGo) {
  const at::TensorOptions options(at::kFloat);
  constexpr int64_t kLarge = 1 << 22;
  BufferPool pool;
  {
    const at::Tensor large = pool.take(kLarge, options);
    large.fill_(7);
    for (const int64_t elements : {0, 1, 16}) pool.take(elements, options);
  }
  for (int step = 0; step < 3; ++step) {
    for (const int64_t elements : {0, 1, 16}) {
      EXPECT_EQ(pool.take(elements, options).numel(), elements);
    }
    // Memory of this size would come from the system, cleared.
    EXPECT_EQ(pool.take(kLarge, options)[kLarge / 2].item<float>(), 7);
  }
}

// What the pool keeps is a little larger than what was asked for.
TEST(BufferPool, LeavesOtherDevicesToTheirAllocators) {
  BufferPool pool;
  EXPECT_GT(pool.take(1000, at::kFloat).storage().nbytes(), 4000U);
  const ForceCode forced(aten_code());
  EXPECT_EQ(pool.take(1000, at::kFloat).storage().nbytes(), 4000U);
}

}  // namespace
}  // namespace gradwire
