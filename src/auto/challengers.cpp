#include "auto/challengers.h"

#include <algorithm>
#include <limits>

#include "planner/simulate.h"

namespace gradwire {
namespace {

using planner::MethodChoice;
using planner::Prediction;

// A method of the same class as the running one must gain this much, unless it is less lossy.
constexpr double kLeastGain = 0.10;

// One may be predicted too fast and the other too slow, each by a fifth (docs/plan.md).
constexpr double kRivalry = 0.4;

Prediction prediction_of(const Situation& situation, const MethodChoice& choice) {
  return simulate(situation.profile, situation.network, choice);
}

double predicted_seconds(const Situation& situation, const MethodChoice& choice) {
  return std::max(prediction_of(situation, choice).seconds + situation.other_seconds,
                  situation.step_seconds - situation.most_to_save);
}

Decision decision_for(const Situation& situation, const MethodChoice& choice) {
  Decision decision{.expected_seconds = predicted_seconds(situation, choice)};
  if (!choice.model->is_plain()) decision.methods = {{kWholeModel, choice.model->name}};
  decision.loss = choice.model->loss;
  return decision;
}

// The shortest step of a class or of a less lossy one.
double fastest_of(const std::vector<Decision>& decisions, LossClass most) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Decision& each : decisions) {
    if (each.loss_class() <= most) fastest = std::min(fastest, each.expected_seconds);
  }
  return fastest;
}

bool is_promising(const Decision& decision, const Decision& running,
                  const std::vector<Decision>& all) {
  const double seconds = decision.expected_seconds;
  const LossClass own = decision.loss_class();
  if (seconds > (1 + kRivalry) * fastest_of(all, own)) return false;
  for (const Decision& other : all) {  // it must be short enough beside all that is less lossy
    const bool is_bar = other.loss_class() < own;
    if (is_bar && seconds > required_part(own) * other.expected_seconds) return false;
  }
  if (own < running.loss_class()) {
    return running.expected_seconds > required_part(running.loss_class()) * seconds;
  }
  if (own > running.loss_class()) return true;
  const double limit = decision.loss < running.loss ? 1 : 1 - kLeastGain;
  return seconds <= limit * running.expected_seconds;
}

}  // namespace

double exposed_communication(const Situation& plain, double waited_seconds) {
  return std::min(waited_seconds, prediction_of(plain, {}).wire_seconds);
}

double unexplained_seconds(const Situation& plain, double exposed_seconds) {
  // Where more is exposed than the model says, the network is slower than the model thinks.
  const double explained =
      std::max(prediction_of(plain, {}).seconds, plain.profile.compute_seconds() + exposed_seconds);
  return std::max(0.0, plain.step_seconds - explained);
}

std::vector<Decision> challengers(const Situation& situation, const Decision& running,
                                  std::span<const MethodChoice> candidates) {
  std::vector<Decision> found = {decision_for(situation, {})};
  for (const MethodChoice& candidate : candidates) {
    found.push_back(decision_for(situation, candidate));
  }
  std::erase_if(found, [&](const Decision& d) { return d.methods == running.methods; });
  Decision measured = running;
  measured.expected_seconds = situation.step_seconds;
  std::vector<Decision> all = found;
  all.push_back(measured);
  const double plain_seconds = fastest_of(all, LossClass::exact);
  std::erase_if(found, [&](const Decision& d) { return !is_promising(d, measured, all); });
  std::ranges::stable_sort(found, {}, &Decision::loss);
  for (Decision& decision : found) decision.plain_seconds = plain_seconds;
  return found;
}

}  // namespace gradwire
