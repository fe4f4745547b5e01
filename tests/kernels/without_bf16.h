#pragma once

#include <cstdint>

#include "kernels/simd.h"

namespace gradwire::kernels {

// Keeps the kernels off the target that rounds products to bf16, for comparisons with fp32.
class WithoutBf16 {
 public:
  WithoutBf16() {
    const std::int64_t others = supported_targets() & (supported_targets() - 1);
    if (runs_on_bf16()) pin_target(best_target(others));
  }
  ~WithoutBf16() { pin_target(before_); }
  WithoutBf16(const WithoutBf16&) = delete;
  WithoutBf16& operator=(const WithoutBf16&) = delete;

 private:
  std::int64_t before_ = current_target();
};

}  // namespace gradwire::kernels
