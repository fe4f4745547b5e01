#pragma once

#include <torch/torch.h>

#include <memory>

#include "trainer/models.h"
#include "trainer/settings.h"

namespace gradwire::trainer {

// What --weight-decay says. If it says nothing, AdamW has the 0.1 of most GPT trainings, and the
// other optimizers have none, as in torch.
double weight_decay_of(const Settings& settings);

// Has two groups of parameters: matrices and larger tensors decay, vectors do not. The vectors are
// biases and the scales of norms, which have no reason to be small.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Settings& settings,
                                                        const Model& model);

}  // namespace gradwire::trainer
