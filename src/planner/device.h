#pragma once

// Encode and decode rates from two figures of a machine, for when nothing was measured on it.

#include <cstdint>

#include "planner/profile.h"

namespace gradwire::planner {

enum class DeviceKind : uint8_t { cpu, gpu };

struct Device {
  DeviceKind kind;
  double memory_bandwidth;  // bytes per second
  double flops_per_second;  // fp32
  double per_parameter;     // seconds of starting work on one parameter
};

// One core of a server, and a GPU like the RTX 2080 Ti.
Device default_device(DeviceKind kind);

CodingRates coding_rates(const Device& device, const MethodModels& models);

}  // namespace gradwire::planner
