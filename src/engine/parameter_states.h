#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "gradwire/state.h"
#include "methods/method.h"

namespace gradwire {

// What the methods remember of the parameters: residuals and factors. A state belongs to a
// parameter, never to whatever its gradient arrives in: DDP makes new buckets after the first step.
class ParameterStates {
 public:
  // One per parameter; null where it travels uncompressed.
  using Each = std::vector<std::unique_ptr<ParameterState>>;

  // The parameters outlive this.
  ParameterStates(const std::vector<Parameter>& parameters, Each states)
      : parameters_(parameters), states_(std::move(states)) {}

  ParameterState* of(size_t parameter) const { return states_[parameter].get(); }

  // From now on these are the states. What the ones before have kept back is not lost: it goes into
  // the new residuals, or into the next gradient of a parameter that has none.
  void hand_over(Each next);
  // See ParameterState; nothing where it has been called since the last step.
  void end_step(bool counts) const;
  // Adds what hand_over() has left for this parameter's next gradient.
  void add_left_over(size_t parameter, const at::Tensor& gradient);

  // All that is in units of the gradient is in units of the scaled loss: it follows its scale.
  void rescale(double factor);
  double residual_norm() const;

  void save(State& state) const;
  // Loads what saved_state::check_fits() has accepted.
  void load(const State& state);

 private:
  const std::vector<Parameter>& parameters_;
  Each states_;
  std::unordered_map<size_t, at::Tensor> left_over_;  // by parameter
};

// Adds "<parameter>/<tensor>" for every tensor of these states.
void save_tensors(const std::vector<Parameter>& parameters, const ParameterStates::Each& states,
                  State& state);

}  // namespace gradwire
