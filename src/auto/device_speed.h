#pragma once

#include <ATen/ATen.h>

#include "planner/device.h"

namespace gradwire {

// How fast this process streams memory and multiplies matrices there, as it is now: its threads,
// its neighbours. Takes about a tenth of a second.
planner::Device measure_speed(at::Device device);

}  // namespace gradwire
