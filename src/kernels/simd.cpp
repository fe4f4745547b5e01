#include "kernels/simd.h"

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

HWY_EXPORT(this_target);

std::int64_t supported_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

std::int64_t best_target(std::int64_t targets) { return targets & -targets; }

std::int64_t current_target() { return HWY_DYNAMIC_DISPATCH(this_target)(); }

bool pin_target(std::int64_t target) {
  const bool single = target > 0 && best_target(target) == target;
  if (!single || (target & supported_targets()) == 0) return false;
  hwy::GetChosenTarget().Update(target);
  return true;
}

const char* target_name(std::int64_t target) { return hwy::TargetName(target); }

}  // namespace gradwire::kernels
#endif
