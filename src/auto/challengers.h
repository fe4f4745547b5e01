#pragma once

// Which methods are predicted to be worth a trial.

#include <span>
#include <vector>

#include "auto/decision.h"
#include "planner/network.h"
#include "planner/profile.h"

namespace gradwire {

// What was measured of the job as it runs now.
struct Situation {
  planner::Profile profile;
  planner::Network network;
  double step_seconds = 0;
  // What a step takes that the model does not know of, as the optimizer does: the same whatever is
  // decided.
  double other_seconds = 0;
  double most_to_save = 0;  // of a step, by any method
};

// Of the time that a worker has waited in a step without compression: the rest it has waited for
// slower workers, or for anything else.
double exposed_communication(const Situation& plain, double waited_seconds);

// What of a step without compression neither the model nor the exposed communication explains.
double unexplained_seconds(const Situation& plain, double exposed_seconds);

// Whole-model decisions, plain all-reduce among them, for those candidates that might be chosen in
// the place of the running decision if they took as long as predicted. The least lossy come first.
//
// Nothing else is tried, because trials run on the user's weights, and because a vain trial costs
// something in every later step: a Reducer never gives a hook back (docs/plan.md).
std::vector<Decision> challengers(const Situation& situation, const Decision& running,
                                  std::span<const planner::MethodChoice> candidates);

}  // namespace gradwire
