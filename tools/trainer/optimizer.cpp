#include "trainer/optimizer.h"

#include <tuple>
#include <vector>

namespace gradwire::trainer {
namespace {

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> with_groups(const Model& model, const Options& options,
                                                     double weight_decay) {
  std::vector<torch::Tensor> matrices, vectors;
  for (const torch::Tensor& parameter : model.parameters()) {
    (parameter.dim() >= 2 ? matrices : vectors).push_back(parameter);
  }
  const auto group = [&](const std::vector<torch::Tensor>& parameters, double decay) {
    auto own = std::make_unique<Options>(options);
    own->weight_decay(decay);
    return torch::optim::OptimizerParamGroup(parameters, std::move(own));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.push_back(group(matrices, weight_decay));
  groups.push_back(group(vectors, 0));
  return std::make_unique<Optimizer>(groups, options);
}

}  // namespace

double weight_decay_of(const Settings& settings) {
  return settings.weight_decay.value_or(settings.optimizer == "adamw" ? 0.1 : 0.0);
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Settings& settings,
                                                        const Model& model) {
  namespace optim = torch::optim;
  const double decay = weight_decay_of(settings);
  if (settings.optimizer == "adamw") {
    // GPT-3 and most trainings after it use 0.95 in place of torch's 0.999.
    const auto options = optim::AdamWOptions(settings.lr).betas(std::make_tuple(0.9, 0.95));
    return with_groups<optim::AdamW>(model, options, decay);
  }
  if (settings.optimizer == "adam") {
    return with_groups<optim::Adam>(model, optim::AdamOptions(settings.lr), decay);
  }
  const auto options = optim::SGDOptions(settings.lr).momentum(settings.momentum);
  return with_groups<optim::SGD>(model, options, decay);
}

}  // namespace gradwire::trainer
