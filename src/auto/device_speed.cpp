#include "auto/device_speed.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "methods/device_code.h"

namespace gradwire {
namespace {

constexpr int kRepetitions = 5;

// Of one call, at best. Reading an element waits for a device that works in the background.
template <typename Function>
double fastest_seconds(const Function& function) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepetitions; ++i) {
    const Clock::time_point begin = Clock::now();
    const at::Tensor result = function();
    result.view({-1})[0].item<float>();
    fastest = std::min(fastest, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return fastest;
}

}  // namespace

planner::Device measure_speed(at::Device device) {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  planner::Device speed = planner::default_device(is_host(device) ? planner::DeviceKind::cpu
                                                                  : planner::DeviceKind::gpu);
  // Larger than the caches, as gradients are; `residual += gradient` moves it three times.
  const at::Tensor residual = at::zeros({int64_t{8} << 20}, options);
  const at::Tensor gradient = at::ones_like(residual);
  const double streaming = fastest_seconds([&] { return residual.add_(gradient); });
  speed.memory_bandwidth = 3 * static_cast<double>(residual.nbytes()) / streaming;

  const at::Tensor matrix = gradient.narrow(0, 0, int64_t{1024} * 1024).view({1024, 1024});
  const double product = fastest_seconds([&] { return at::mm(matrix, matrix.narrow(1, 0, 64)); });
  speed.flops_per_second = 2.0 * 1024 * 1024 * 64 / product;
  return speed;
}

}  // namespace gradwire
