#include "methods/device_code.h"

#include <atomic>

namespace gradwire {
namespace {
std::atomic<const DeviceCode*> forced_code = nullptr;
}

const DeviceCode& code_for(at::Device device) {
  if (const DeviceCode* forced = forced_code) return *forced;
  return device.is_cpu() ? kernel_code() : aten_code();
}

ForceCode::ForceCode(const DeviceCode& code) : before_(forced_code.exchange(&code)) {}
ForceCode::~ForceCode() { forced_code = before_; }

}  // namespace gradwire
