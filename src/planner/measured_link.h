#pragma once

// What `gradwire probe` finds out about the network between some workers, and its file format.

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/network.h"

namespace gradwire::planner {

// One collective, in terms of cost_of() for a ring.
struct CollectiveFit {
  double latency = 0;    // seconds per message
  double bandwidth = 0;  // bytes per second
  // How far to trust them:
  double residual = 0;   // root of the mean square of the relative errors over all sizes
  double r_squared = 0;  // of the times, which the large sizes dominate: 1 where the fit is exact
  double spread = 0;     // of repetitions: their middle half, relative to the median
};

struct MeasuredLink {
  int64_t workers = 1;
  std::array<CollectiveFit, kCollectives> fits;  // by Collective

  // The mean latency of the three and the bandwidth of the all-reduce,
  Link link() const;
  // and how each compares with that.
  std::array<Slowness, kCollectives> slowness() const;
  // Throws std::invalid_argument.
  void check() const;
};

nlohmann::json to_json(const MeasuredLink& measured);

// Throws std::invalid_argument naming the field that is wrong.
MeasuredLink measured_link_from_json(const nlohmann::json& value);

}  // namespace gradwire::planner
