#include "planner/device.h"

namespace gradwire::planner {

Device default_device(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return {kind, 30e9, 0.13e12, 3e-6};
  return {kind, 600e9, 13e12, 30e-6};
}

CodingRates coding_rates(const Device& device, const MethodModels& models) {
  CodingRates rates;
  for (const MethodModel* model : models) {
    CodingRate& rate = rates[model->name];
    if (model->is_plain()) continue;
    const Traffic& traffic =
        device.kind == DeviceKind::cpu ? model->kernels : model->tensor_operations;
    rate = {.encode = traffic.encode / device.memory_bandwidth,
            .between = traffic.between / device.memory_bandwidth,
            .decode = traffic.decode / device.memory_bandwidth,
            .decode_payload = traffic.decode_payload / device.memory_bandwidth,
            .per_parameter = device.per_parameter};
  }
  return rates;
}

}  // namespace gradwire::planner
