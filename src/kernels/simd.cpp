#include "kernels/simd.h"

#include <atomic>

#include "kernels/low_rank_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gradwire::kernels::HWY_NAMESPACE {

std::int64_t this_target() { return HWY_TARGET; }

}  // namespace gradwire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradwire::kernels {

namespace {

HWY_EXPORT(this_target);

// Highway's own targets begin at higher bits, so this one is better.
constexpr std::int64_t kBf16Target = 1;

std::int64_t highway_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

// Requires AVX3 to be Highway's best target, so that the other kernels run on the same target on
// all workers.
bool bf16_supported() {
  return best_target(highway_targets()) == HWY_AVX3 && low_rank::bf16::supported();
}

std::atomic<bool>& bf16_chosen() {
  static std::atomic<bool> chosen = bf16_supported();
  return chosen;
}

}  // namespace

std::int64_t supported_targets() {
  return highway_targets() | (bf16_supported() ? kBf16Target : 0);
}

std::int64_t best_target(std::int64_t targets) { return targets & -targets; }

bool runs_on_bf16() { return bf16_chosen().load(std::memory_order_relaxed); }

std::int64_t current_target() {
  return runs_on_bf16() ? kBf16Target : HWY_DYNAMIC_DISPATCH(this_target)();
}

bool pin_target(std::int64_t target) {
  const bool single = target > 0 && best_target(target) == target;
  if (!single || (target & supported_targets()) == 0) return false;
  const bool bf16 = target == kBf16Target;
  bf16_chosen() = bf16;
  hwy::GetChosenTarget().Update(bf16 ? HWY_AVX3 : target);
  return true;
}

const char* target_name(std::int64_t target) {
  return target == kBf16Target ? "AVX3_BF16" : hwy::TargetName(target);
}

}  // namespace gradwire::kernels
#endif
