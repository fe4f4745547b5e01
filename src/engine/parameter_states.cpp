#include "engine/parameter_states.h"

#include <cmath>

namespace gradwire {
namespace {

// Where a state keeps its residual, to be written to; undefined if it keeps none.
at::Tensor residual_of(ParameterState& state) {
  for (const StateTensor& kept : state.tensors()) {
    if (kept.role == StateTensor::Role::residual) return kept.tensor;
  }
  return {};
}

}  // namespace

void ParameterStates::hand_over(Each next) {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == nullptr) continue;
    const at::Tensor residual = states_[i]->residual();
    if (!residual.defined()) continue;
    const at::Tensor heir = next[i] == nullptr ? at::Tensor() : residual_of(*next[i]);
    if (heir.defined()) {
      heir.copy_(residual.view_as(heir));
    } else {
      left_over_[i] = residual.clone();
    }
  }
  states_ = std::move(next);
}

void ParameterStates::add_left_over(size_t parameter, const at::Tensor& gradient) {
  if (const auto left_over = left_over_.extract(parameter)) {
    gradient.add_(left_over.mapped().view_as(gradient));
  }
}

void ParameterStates::rescale(double factor) {
  for (const auto& state : states_) {
    if (state == nullptr) continue;
    if (const at::Tensor residual = residual_of(*state); residual.defined()) residual.mul_(factor);
  }
  for (auto& [parameter, tensor] : left_over_) tensor.mul_(factor);
}

double ParameterStates::residual_norm() const {
  double squares = 0;
  for (const auto& state : states_) {
    if (state == nullptr) continue;
    const at::Tensor residual = state->residual();
    if (residual.defined()) squares += residual.square().sum(at::kDouble).item<double>();
  }
  return std::sqrt(squares);
}

void ParameterStates::save(State& state) const { save_tensors(parameters_, states_, state); }

void ParameterStates::load(const State& state) {
  left_over_.clear();
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == nullptr) continue;
    for (const StateTensor& kept : states_[i]->tensors()) {
      kept.tensor.copy_(state.at(parameters_[i].name + "/" + kept.name).toTensor());
    }
  }
}

void save_tensors(const std::vector<Parameter>& parameters, const ParameterStates::Each& states,
                  State& state) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] == nullptr) continue;
    for (const StateTensor& kept : states[i]->tensors()) {
      state[parameters[i].name + "/" + kept.name] = kept.tensor.clone();
    }
  }
}

}  // namespace gradwire
