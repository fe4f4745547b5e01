#pragma once

// Gradients for tests of methods, [worker][parameter].

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gradwire {

using Shapes = std::vector<std::vector<int64_t>>;
using Gradients = std::vector<std::vector<at::Tensor>>;

inline const Shapes kShapes = {{}, {1}, {7}, {64, 48}, {32, 4, 3, 3}, {300, 500}};

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline Gradients random_gradients(int workers, int64_t step, const Shapes& shapes = kShapes) {
  Gradients gradients(workers);
  for (int worker = 0; worker < workers; ++worker) {
    auto generator = at::detail::createCPUGenerator(worker * 7919 + step * 104729 + 1);
    for (const auto& shape : shapes) {
      gradients[worker].push_back(at::randn(shape, generator, at::TensorOptions(at::kFloat)));
    }
  }
  return gradients;
}

// In bf16, in fp16 and in another memory format: of the shapes {7}, {130}, {8, 4, 3, 3}.
inline const Shapes kUnusualShapes = {{7}, {130}, {8, 4, 3, 3}};
inline Gradients unusual_gradients(int workers) {
  Gradients gradients = random_gradients(workers, 0, kUnusualShapes);
  for (auto& worker : gradients) {
    worker[0] = worker[0].to(at::kBFloat16);
    worker[1] = worker[1].to(at::kHalf);
    worker[2] = worker[2].contiguous(at::MemoryFormat::ChannelsLast);
  }
  return gradients;
}

// All equal, both zeros, denormals, huge and tiny: of the shapes {12}, {12}, {70000}.
inline Gradients special_gradients(int workers) {
  Gradients gradients(workers);
  for (int worker = 0; worker < workers; ++worker) {
    const float sign = worker % 2 == 0 ? 1.0F : -1.0F;
    gradients[worker] = {at::full({12}, 0.25F * sign),
                         at::tensor({-0.0F, 0.0F, 1e-40F, -1e-40F, 1e30F, -1e30F, 1e-30F, -1e-30F,
                                     3.0F, -3.0F, -0.0F, sign},
                                    at::kFloat),
                         at::full({70000}, -1e30F * sign)};
  }
  return gradients;
}
inline const Shapes kSpecialShapes = {{12}, {12}, {70000}};

// Equal bits, so that 0 differs from -0 and NaN equals NaN.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto as_integer = [](const at::Tensor& tensor) {
    return tensor.contiguous().view(tensor.element_size() == 4 ? at::kInt : at::kShort);
  };
  return as_integer(a).equal(as_integer(b));
}

inline void expect_alike(const Gradients& results) {
  for (size_t worker = 1; worker < results.size(); ++worker) {
    for (size_t i = 0; i < results[worker].size(); ++i) {
      EXPECT_TRUE(same_bits(results[worker][i], results[0][i]))
          << "worker " << worker << ", parameter " << i;
    }
  }
}

// How far apart they are at most, relative to the largest element of `expected`.
inline double distance(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  const double largest = std::max(wide.abs().max().item<double>(), 1e-300);
  return (actual.to(at::kDouble) - wide).abs().max().item<double>() / largest;
}

}  // namespace gradwire
