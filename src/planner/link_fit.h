#pragma once

// Latency and bandwidth from the times of real collectives.

#include <span>
#include <vector>

#include "planner/measured_link.h"

namespace gradwire::planner {

// One collective at one size, several times.
struct Timing {
  double bytes = 0;  // as for cost_of()
  std::vector<double> seconds;
};

// The latency per message and the bandwidth with which cost_of(), for a ring, comes closest to the
// timings, which are in ascending order of size. Where the times do not grow with the size, the
// bandwidth is the least there can be. Throws std::invalid_argument for fewer than three sizes.
CollectiveFit fit_collective(Collective collective, int64_t workers,
                             std::span<const Timing> timings);

}  // namespace gradwire::planner
