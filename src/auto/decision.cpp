#include "auto/decision.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/json_object.h"
#include "planner/quantile.h"
#include "planner/quantity.h"

namespace gradwire {
namespace {

using nlohmann::json;
using planner::describe_seconds;

constexpr const char* kDecisionFormat = "gradwire-decision-2";

// How far a step may be from what was expected of it.
constexpr double kSurprise = 0.20;

// In multiples of the shortest.
constexpr double kLongestStep = 3;

}  // namespace

const Decision& best_of(const std::vector<Decision>& decisions) {
  std::vector<planner::Timed> timed;
  for (const Decision& each : decisions) timed.push_back({each.loss, each.expected_seconds});
  return decisions[planner::best_of(timed)];
}

bool is_surprising(const Decision& decision, double measured_seconds) {
  const double difference = std::abs(measured_seconds - decision.expected_seconds);
  return difference > kSurprise * decision.expected_seconds;
}

double usual_seconds(std::vector<double> seconds) {
  const double longest = kLongestStep * *std::ranges::min_element(seconds);
  const auto is_long = [&](double step) { return step > longest; };
  // If they are many, they are no exceptions: something has changed for good.
  const bool are_few = 3 * std::ranges::count_if(seconds, is_long) <= std::ssize(seconds);
  if (are_few) std::erase_if(seconds, is_long);
  return planner::median(std::move(seconds));
}

std::string describe(const Decision& decision) {
  std::set<std::string> names;
  for (const auto& [parameter, method] : decision.methods) names.insert(method);
  if (names.empty()) names.insert("allreduce");
  std::string text = "auto:";
  for (const std::string& name : names) text += (text.back() == ':' ? " " : " and ") + name;
  return text + "; a step is expected to take " + describe_seconds(decision.expected_seconds) +
         ", uncompressed " + describe_seconds(decision.plain_seconds);
}

json to_json(const Decision& decision) {
  return {{"format", kDecisionFormat},
          {"methods", decision.methods},
          {"expected_seconds", decision.expected_seconds},
          {"plain_seconds", decision.plain_seconds},
          {"loss", decision.loss}};
}

Decision decision_from_json(const json& value) {
  const planner::JsonObject object(value, "decision");
  object.require_format(kDecisionFormat);
  object.allow_only({"format", "methods", "expected_seconds", "plain_seconds", "loss"});
  Decision decision{.methods = {},
                    .expected_seconds = object.number("expected_seconds"),
                    .plain_seconds = object.number("plain_seconds"),
                    .loss = object.number("loss")};
  const planner::JsonObject methods = object.object("methods");
  for (const auto& [name, method] : object.at("methods").items()) {
    decision.methods[name] = methods.text(name);
  }
  return decision;
}

}  // namespace gradwire
