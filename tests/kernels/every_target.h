#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/simd.h"

namespace gradwire::kernels {

// The SIMD targets that this machine supports, the best one first.
inline std::vector<std::int64_t> each_target() {
  std::vector<std::int64_t> targets;
  for (std::int64_t rest = supported_targets(); rest != 0; rest &= rest - 1) {
    targets.push_back(best_target(rest));
  }
  return targets;
}

// Runs `body` once on each of them, then returns to the best one.
template <class Body>
void on_every_target(Body&& body) {
  for (const std::int64_t target : each_target()) {
    SCOPED_TRACE(target_name(target));
    ASSERT_TRUE(pin_target(target));
    body();
  }
  pin_target(best_target(supported_targets()));
}

}  // namespace gradwire::kernels
