#pragma once

// A module whose gradients a test chooses freely: the loss is the inner product of every parameter
// with the gradient it shall get.

#include <torch/torch.h>

#include <vector>

#include "gradwire/gradwire.h"

namespace gradwire {

using Tensors = std::vector<at::Tensor>;

struct GradientFeederImpl : torch::nn::Module {
  explicit GradientFeederImpl(const std::vector<std::vector<int64_t>>& shapes,
                              at::ScalarType type = at::kFloat) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      weights.push_back(
          register_parameter("weight" + std::to_string(i), torch::zeros(shapes[i], type)));
    }
  }

  // An undefined gradient leaves the parameter out of the graph.
  at::Tensor forward(const Tensors& gradients) {
    at::Tensor loss = torch::zeros({});
    for (size_t i = 0; i < weights.size(); ++i) {
      if (gradients[i].defined()) loss = loss + (weights[i] * gradients[i]).sum();
    }
    return loss;
  }

  Tensors weights;
};
TORCH_MODULE(GradientFeeder);

// Runs one step with these gradients on this worker; the results, one per parameter.
template <typename Ddp>
Tensors results_of_step(Ddp& ddp, const Tensors& gradients) {
  ddp.module()->zero_grad();
  ddp.forward(gradients).backward();
  Tensors results;
  for (const at::Tensor& weight : ddp.module()->weights) {
    results.push_back(weight.grad().defined() ? weight.grad().detach().clone() : at::Tensor());
  }
  return results;
}

// The gradient of one parameter on one worker in one step: anybody can compute everybody's.
inline at::Tensor gradient_for(int worker, int64_t step, size_t parameter,
                               const std::vector<int64_t>& shape) {
  auto generator =
      at::detail::createCPUGenerator(worker * 7919 + step * 104729 + parameter * 31 + 1);
  return at::randn(shape, generator, at::TensorOptions(at::kFloat));
}

inline Tensors gradients_for(int worker, int64_t step,
                             const std::vector<std::vector<int64_t>>& shapes) {
  Tensors gradients;
  for (size_t i = 0; i < shapes.size(); ++i) {
    gradients.push_back(gradient_for(worker, step, i, shapes[i]));
  }
  return gradients;
}

}  // namespace gradwire
