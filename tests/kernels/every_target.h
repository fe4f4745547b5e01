#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/simd.h"

namespace gradwire::kernels {

// Runs `body` once on each SIMD target that this machine supports, then returns to the best one.
template <class Body>
void on_every_target(Body&& body) {
  for (std::int64_t rest = supported_targets(); rest != 0; rest &= rest - 1) {
    const std::int64_t target = best_target(rest);
    SCOPED_TRACE(target_name(target));
    ASSERT_TRUE(pin_target(target));
    body();
  }
  pin_target(best_target(supported_targets()));
}

}  // namespace gradwire::kernels
