#include "planner/contest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/json_object.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "gradwire-contest-2";

// One may be predicted too fast and the other too slow, each by a fifth (docs/plan.md).
constexpr double kRivalry = 0.4;

}  // namespace

Contest::Contest(Decision incumbent, std::vector<Decision> challengers)
    : contenders_(std::move(challengers)) {
  contenders_.insert(contenders_.begin(), std::move(incumbent));
}

const Decision& Contest::running() const {
  if (!is_over()) return contenders_[tried_];
  const Decision& fastest = *std::ranges::min_element(contenders_, {}, &Decision::expected_seconds);
  const Decision* winner = &fastest;
  for (const Decision& contender : contenders_) {
    if (contender.expected_seconds > (1 + kTolerance) * fastest.expected_seconds) continue;
    if (contender.loss < winner->loss) winner = &contender;
  }
  return *winner;
}

void Contest::take_turn(double seconds) {
  contenders_[tried_].expected_seconds = seconds;
  if (!contenders_[tried_].compresses()) {
    for (Decision& contender : contenders_) contender.plain_seconds = seconds;
  }
  ++tried_;
}

json to_json(const Contest& contest) {
  json contenders = json::array();
  for (const Decision& contender : contest.contenders_) contenders.push_back(to_json(contender));
  return {{"format", kFormat}, {"contenders", contenders}, {"tried", contest.tried_}};
}

Contest contest_from_json(const json& value) {
  const JsonObject object(value, "contest");
  object.require_format(kFormat);
  object.allow_only({"format", "contenders", "tried"});
  std::vector<Decision> contenders;
  for (const json& contender : object.list("contenders")) {
    contenders.push_back(decision_from_json(contender));
  }
  if (contenders.empty()) object.refuse("contenders", "must not be empty");
  Contest contest(Decision{});
  contest.contenders_ = std::move(contenders);
  const int64_t tried = object.integer("tried");
  if (tried < 1 || static_cast<size_t>(tried) > contest.contenders_.size()) {
    object.refuse("tried", "must be a number of contenders");
  }
  contest.tried_ = static_cast<size_t>(tried);
  return contest;
}

std::vector<Decision> rivals(const Decision& best, const Profile& profile, const Network& network,
                             std::span<const MethodChoice> candidates, double other_seconds) {
  std::vector<Decision> found;
  for (const MethodChoice& candidate : candidates) {
    if (candidate.method == Method::allreduce) continue;
    const Assignment assignment = same_for_all(profile, candidate);
    Decision rival = decision_of(profile, assignment);
    rival.expected_seconds = simulate(profile, network, assignment).seconds + other_seconds;
    rival.plain_seconds = best.plain_seconds;
    const bool is_promising = rival.expected_seconds <= (1 + kRivalry) * best.expected_seconds;
    if (is_promising && rival.methods != best.methods) found.push_back(std::move(rival));
  }
  std::ranges::stable_sort(found, {}, &Decision::expected_seconds);
  return found;
}

}  // namespace gradwire::planner
