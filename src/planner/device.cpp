#include "planner/device.h"

#include <stdexcept>

namespace gradwire::planner {
namespace {

// Bytes that go through memory per byte of gradient, or the time of as many; `decode_payload` per
// byte of payload.
struct Traffic {
  double encode;
  double between;
  double decode;
  double decode_payload;
};

// The kernels, as measured by `gradwire bench` on one core: the ratio of their time to that of
// `residual += gradient`, whose traffic is 3. Low rank without its products.
Traffic kernel_traffic(Method method) {
  switch (method) {
    case Method::allreduce:
      return {0, 0, 0, 0};
    case Method::half:
      return {2.8, 1.2, 2.1, 0};
    case Method::powersgd:
      return {7.5, 2.5, 3.2, 0};
    case Method::acpsgd:
      return {4.8, 0, 2, 0};
    case Method::topk:
      return {5.4, 0, 3.1, 18};
    case Method::adacomp:
      return {4.8, 0, 2.7, 5};
    case Method::sign:
      return {4, 0, 1.5, 10};
    case Method::sign_vote:
      return {2.2, 0.6, 1.6, 0};
  }
  throw std::logic_error("not a method");
}

// The same methods written in tensor operations, each of which reads and writes memory: counted,
// not measured.
Traffic tensor_operation_traffic(Method method) {
  switch (method) {
    case Method::allreduce:
      return {0, 0, 0, 0};
    case Method::half:
      return {1.5, 1.5, 1.5, 0};
    case Method::powersgd:
      return {6, 2, 5, 0};
    case Method::acpsgd:
      return {9, 0, 3, 0};
    case Method::topk:
      return {24, 0, 2, 40};
    case Method::adacomp:
      return {16, 0, 2, 40};
    case Method::sign:
      return {12, 0, 2, 150};
    case Method::sign_vote:
      return {6, 8, 6, 0};
  }
  throw std::logic_error("not a method");
}

}  // namespace

Device default_device(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return {kind, 30e9, 0.13e12, 3e-6};
  return {kind, 600e9, 13e12, 30e-6};
}

CodingRates coding_rates(const Device& device) {
  CodingRates rates;
  for (const Method method : kAllMethods) {
    if (method == Method::allreduce) continue;
    const Traffic traffic =
        device.kind == DeviceKind::cpu ? kernel_traffic(method) : tensor_operation_traffic(method);
    rates[index_of(method)] = {.encode = traffic.encode / device.memory_bandwidth,
                               .between = traffic.between / device.memory_bandwidth,
                               .decode = traffic.decode / device.memory_bandwidth,
                               .decode_payload = traffic.decode_payload / device.memory_bandwidth,
                               .per_parameter = device.per_parameter};
  }
  return rates;
}

}  // namespace gradwire::planner
