#pragma once

#include <string>

#include "planner/sweep.h"

namespace gradwire {

// Speed-up over all-reduce of each method against the bandwidth, one panel per number of workers,
// as a self-contained SVG document.
std::string speed_up_plot(const planner::SweepRequest& request);

}  // namespace gradwire
