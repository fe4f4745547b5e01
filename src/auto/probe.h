#pragma once

// Finds out about the network by using it.

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "planner/measured_link.h"

namespace gradwire {

struct ProbeOptions {
  double seconds_per_collective = 2;  // about; there are three
  at::Device device = at::kCPU;       // where the group's tensors are
};

// Times the group's all-reduce, all-gather and all-to-all at several sizes and fits latency and
// bandwidth to each. Collective; every worker gets the same result to the last bit, so that they
// can decide upon it alike. Throws std::invalid_argument for a group of one.
planner::MeasuredLink probe(c10d::ProcessGroup& group, const ProbeOptions& options = {});

}  // namespace gradwire
