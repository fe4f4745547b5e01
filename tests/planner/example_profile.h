#pragma once

#include "planner/device.h"
#include "planner/model_shapes.h"
#include "planner/network.h"

namespace gradwire::planner {

// A built-in model on a GPU.
inline Profile example_profile(const char* model, double compute_seconds,
                               const MethodModels& methods) {
  Profile profile = model_profile(model, compute_seconds);
  const Device device = default_device(DeviceKind::gpu);
  profile.rates = coding_rates(device, methods);
  profile.flops_per_second = device.flops_per_second;
  return profile;
}

inline Network example_network(int64_t workers, double gbit_per_s, double latency = 20e-6) {
  return {.workers = workers,
          .between_nodes = {.latency = latency, .bandwidth = gbit_per_s * 1e9 / 8}};
}

}  // namespace gradwire::planner
