#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace gradwire::trainer {

// Returns one row of scores for every prediction. It predicts the class of a sample, or the next
// character at every place of a sequence.
struct Model : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

std::vector<std::string> model_names();

// The weights come from torch's random numbers. Throws std::invalid_argument if there is no such
// model, or if it is not for data of this kind.
std::shared_ptr<Model> make_model(const std::string& name, const data::Dataset& dataset);

// gpt.cpp. A sequence has at most `context` characters.
std::shared_ptr<Model> make_gpt(int64_t characters, int64_t context);

// resnet18.cpp
std::shared_ptr<Model> make_resnet18(int64_t channels, int64_t classes);

}  // namespace gradwire::trainer
