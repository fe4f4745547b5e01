#include "engine/parameter_states.h"

#include <cmath>

namespace gradwire {
namespace {

using Role = StateTensor::Role;

// Where a state keeps this, to be written to; undefined if it does not.
at::Tensor tensor_of(ParameterState& state, Role role) {
  for (const StateTensor& kept : state.tensors()) {
    if (kept.role == role) return kept.tensor;
  }
  return {};
}

bool has_momentum(ParameterState& state) { return tensor_of(state, Role::velocity).defined(); }

// Both have the same momentum: it is that of the user's optimizer.
void hand_over_with_momentum(ParameterState& from, ParameterState& to) {
  for (const Role role : {Role::residual, Role::velocity, Role::common_velocity}) {
    const at::Tensor heir = tensor_of(to, role);
    const at::Tensor kept = tensor_of(from, role);
    if (heir.defined() && kept.defined()) heir.copy_(kept.view_as(heir));
  }
}

}  // namespace

void ParameterStates::hand_over(Each next) {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == nullptr) continue;
    const bool to_momentum = next[i] != nullptr && has_momentum(*next[i]);
    if (to_momentum && has_momentum(*states_[i])) {
      hand_over_with_momentum(*states_[i], *next[i]);
      continue;
    }
    const at::Tensor residual = states_[i]->residual();
    if (!residual.defined()) continue;
    const at::Tensor heir = next[i] == nullptr ? at::Tensor() : tensor_of(*next[i], Role::residual);
    // With momentum correction a residual is of velocities: what is in units of the gradient goes
    // into the next one.
    if (heir.defined() && !to_momentum) {
      heir.copy_(residual.view_as(heir));
    } else {
      left_over_[i] = residual.clone();
    }
  }
  states_ = std::move(next);
}

void ParameterStates::end_step(bool counts) const {
  for (const auto& state : states_) {
    if (state != nullptr) state->end_step(counts);
  }
}

void ParameterStates::add_left_over(size_t parameter, const at::Tensor& gradient) {
  if (const auto left_over = left_over_.extract(parameter)) {
    gradient.add_(left_over.mapped().view_as(gradient));
  }
}

void ParameterStates::rescale(double factor) {
  for (const auto& state : states_) {
    if (state == nullptr) continue;
    for (const StateTensor& kept : state->tensors()) {
      if (kept.role != Role::shared) kept.tensor.mul_(factor);
    }
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
