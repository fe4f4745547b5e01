#pragma once

// Which method each parameter travels by. It is decided from the request when a Compressor is made,
// and again whenever `auto` changes its mind.

#include <memory>
#include <string>
#include <vector>

#include "engine/parameter_states.h"
#include "gradwire/options.h"
#include "methods/registry.h"

namespace gradwire {

struct Route {
  const MethodEntry* method = nullptr;
  OptionMap options;   // complete
  size_t carrier = 0;  // index into Routes::carriers: what travels in the same exchanges
  bool compresses = false;

  std::string describe() const;
};

struct Routes {
  std::vector<std::unique_ptr<Method>> carriers;  // the first is always plain all-reduce
  std::vector<Route> by_parameter;
  ParameterStates::Each states;  // to begin with

  // Nothing is compressed at all.
  bool is_plain() const { return carriers.size() == 1; }
  // The most that any exchange makes.
  int rounds() const;
  // The lossiest class of any parameter.
  LossClass loss_class() const;
  // Some results are corrected for momentum.
  bool has_momentum() const;
};

// Throws std::invalid_argument for an unknown method, an unknown option or a value out of range.
Routes make_routes(const Request& request, const std::vector<Parameter>& parameters);

}  // namespace gradwire
