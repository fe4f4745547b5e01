#pragma once

// Gradients and plain references for the methods that send selections.

#include "gradients.h"
#include "simulated_world.h"

namespace gradwire {

using Tensors = std::vector<at::Tensor>;  // of every parameter

// Normally distributed, of another magnitude for every parameter.
inline std::vector<Tensors> gradients_of_step(int workers, int step, const Shapes& shapes) {
  at::Generator generator = at::detail::createCPUGenerator(1000 + static_cast<uint64_t>(step));
  std::vector<Tensors> gradients(static_cast<size_t>(workers));
  for (Tensors& of_worker : gradients) {
    double magnitude = 1e-3;
    for (const auto& shape : shapes) {
      of_worker.push_back(at::randn(shape, generator, at::TensorOptions(at::kFloat)) * magnitude);
      magnitude *= 7;
    }
  }
  return gradients;
}

// One step of a world and of a plain reference of its method: equal results, equal residuals.
template <class Reference>
void expect_equal_step(SimulatedWorld& world, Reference& reference,
                       const std::vector<Tensors>& gradients) {
  const auto results = world.step(gradients);
  const Tensors expected = reference.step(gradients);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(results[0][i].equal(expected[i])) << "parameter " << i;
    for (int worker = 0; worker < static_cast<int>(gradients.size()); ++worker) {
      EXPECT_TRUE(world.residual(worker, i).equal(reference.error(worker, i)))
          << "parameter " << i << ", worker " << worker;
    }
  }
}

inline std::vector<Tensors> clone(const std::vector<Tensors>& tensors) {
  std::vector<Tensors> copies = tensors;
  for (Tensors& of_worker : copies) {
    for (at::Tensor& tensor : of_worker) tensor = tensor.clone();
  }
  return copies;
}

inline std::vector<Tensors> residuals(const SimulatedWorld& world, int workers, size_t parameters) {
  std::vector<Tensors> all(static_cast<size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) {
    for (size_t i = 0; i < parameters; ++i) all[worker].push_back(world.residual(worker, i));
  }
  return all;
}

}  // namespace gradwire
