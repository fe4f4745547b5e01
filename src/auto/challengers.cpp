#include "auto/challengers.h"

#include <algorithm>

#include "planner/choose.h"
#include "planner/simulate.h"

namespace gradwire {
namespace {

using planner::MethodChoice;
using planner::Prediction;

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
  const double plain_seconds =
      running.compresses() ? found.front().expected_seconds : situation.step_seconds;
  std::erase_if(found, [&](const Decision& d) { return d.methods == running.methods; });
  if (found.empty()) return {};
  std::ranges::stable_sort(found, {}, &Decision::expected_seconds);
  const double promising = (1 + kRivalry) * found.front().expected_seconds;
  std::erase_if(found, [&](const Decision& decision) {
    const double limit = decision.loss < running.loss ? 1 + planner::kTolerance : 1 - kLeastGain;
    return decision.expected_seconds > std::min(promising, limit * situation.step_seconds);
  });
  for (Decision& decision : found) decision.plain_seconds = plain_seconds;
  return found;
}

}  // namespace gradwire
