#include "auto/contest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/json_object.h"

namespace gradwire {
namespace {

using nlohmann::json;

constexpr const char* kContestFormat = "gradwire-contest-3";

// A trial is only a few steps, so decisions within this of the fastest have a second one.
constexpr double kClose = 0.1;

}  // namespace

Contest::Contest(Decision incumbent, std::vector<Decision> challengers)
    : contenders_(std::move(challengers)) {
  for (size_t i = contenders_.size(); i > 0; --i) waiting_.push_back(i);
  contenders_.insert(contenders_.begin(), std::move(incumbent));
}

const Decision& Contest::fastest() const {
  return *std::ranges::min_element(contenders_, {}, &Decision::expected_seconds);
}

const Decision& Contest::running() const {
  return is_over() ? best_of(contenders_) : contenders_[waiting_.back()];
}

void Contest::take_turn(std::optional<double> seconds) {
  const size_t index = waiting_.back();
  Decision& tried = contenders_[index];
  waiting_.pop_back();
  if (!seconds) {
    if (!is_final_) waiting_.insert(waiting_.begin(), index);
  } else if (!tried.compresses()) {
    // Its first time may be that of DDP's own steps, which have no hook and do not come back.
    tried.expected_seconds = *seconds;
    for (Decision& contender : contenders_) contender.plain_seconds = *seconds;
  } else {
    tried.expected_seconds = is_final_ ? std::min(tried.expected_seconds, *seconds) : *seconds;
  }
  if (waiting_.empty() && !is_final_) call_finalists();
}

void Contest::call_finalists() {
  is_final_ = true;
  const double close = (1 + kClose) * fastest().expected_seconds;
  for (size_t i = 0; i < contenders_.size(); ++i) {
    if (contenders_[i].expected_seconds <= close) waiting_.push_back(i);
  }
  if (waiting_.size() == 1) waiting_.clear();
}

json to_json(const Contest& contest) {
  json contenders = json::array();
  for (const Decision& contender : contest.contenders_) contenders.push_back(to_json(contender));
  return {{"format", kContestFormat},
          {"contenders", contenders},
          {"waiting", contest.waiting_},
          {"round", contest.is_final_ ? 2 : 1}};
}

Contest contest_from_json(const json& value) {
  const planner::JsonObject object(value, "contest");
  object.require_format(kContestFormat);
  object.allow_only({"format", "contenders", "waiting", "round"});
  Contest contest(Decision{});
  contest.contenders_.clear();
  for (const json& contender : object.list("contenders")) {
    contest.contenders_.push_back(decision_from_json(contender));
  }
  if (contest.contenders_.empty()) object.refuse("contenders", "must not be empty");
  for (const int64_t index : object.integers("waiting")) {
    const auto contender = static_cast<size_t>(index);
    const bool is_twice = std::ranges::find(contest.waiting_, contender) != contest.waiting_.end();
    if (contender >= contest.contenders_.size() || is_twice) {
      object.refuse("waiting", "must be indices of contenders, each once at the most");
    }
    contest.waiting_.push_back(contender);
  }
  const int64_t round = object.integer("round");
  if (round != 1 && round != 2) object.refuse("round", "must be 1 or 2");
  contest.is_final_ = round == 2;
  if (contest.waiting_.empty() && !contest.is_final_ && contest.contenders_.size() > 1) {
    object.refuse("waiting", "must not be empty in the first round");
  }
  return contest;
}

}  // namespace gradwire
