#pragma once

// Which method, by its class of loss and its time; and where a method begins to pay.

#include <span>

#include "planner/simulate.h"

namespace gradwire::planner {

// A method of this class must make steps as short as this part of what less lossy ones take.
double required_part(LossClass loss_class);

struct Timed {
  double loss;     // MethodModel::loss
  double seconds;  // of a step, predicted or measured
};

// The index of the one to use: of the lossiest class that makes steps as much shorter as it must,
// the least lossy within 2 % of the fastest. This is the rule of `auto` and of plans.
size_t best_of(std::span<const Timed> methods);

enum class Helps : uint8_t { never, below, always };

struct BreakEven {
  Helps helps;
  double bandwidth = 0;  // between nodes; where it helps below
};

// The highest bandwidth between nodes, within 10 Mb/s to 10 Tb/s, below which the method's
// iteration is shorter than all-reduce's.
BreakEven break_even(const Profile& profile, const Network& network, const MethodChoice& choice);

}  // namespace gradwire::planner
