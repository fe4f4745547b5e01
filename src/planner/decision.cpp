#include "planner/decision.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "planner/json_object.h"
#include "planner/quantile.h"
#include "planner/quantity.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "gradwire-decision-2";

// In multiples of the shortest.
constexpr double kLongestStep = 3;

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * part);
  return text;
}

Prediction without_compression(const Profile& profile, const Network& network) {
  return simulate(profile, network, same_for_all(profile, {.method = Method::allreduce}));
}

}  // namespace

Decision decision_of(const Profile& profile, const Assignment& assignment) {
  Decision decision;
  for (size_t i = 0; i < profile.buckets.size(); ++i) {
    const Method method = assignment[i].method;
    if (method == Method::allreduce) continue;
    for (const size_t index : profile.buckets[i].parameters) {
      const ParameterShape& parameter = profile.parameters[index];
      decision.methods[parameter.name] = method;
      decision.loss += static_cast<double>(index_of(method)) * parameter.bytes();
    }
  }
  decision.loss /= profile.gradient_bytes();
  return decision;
}

Decision decide(const Profile& profile, const Network& network,
                std::span<const MethodChoice> candidates, double other_seconds) {
  const Choice choice = choose_per_bucket(profile, network, candidates);
  Decision decision = decision_of(profile, choice.assignment);
  decision.expected_seconds = choice.prediction.seconds + other_seconds;
  decision.plain_seconds = without_compression(profile, network).seconds + other_seconds;
  return decision;
}

double exposed_communication(const Profile& profile, const Network& network,
                             double waited_seconds) {
  return std::min(waited_seconds, without_compression(profile, network).wire_seconds);
}

double other_seconds(const Profile& profile, const Network& network, const MeasuredStep& plain) {
  const double explained = std::max(without_compression(profile, network).seconds,
                                    profile.compute_seconds() + plain.exposed_seconds);
  return std::max(0.0, plain.seconds - explained);
}

Decision corrected(Decision predicted, const Decision& running, const MeasuredStep& step) {
  if (!running.compresses()) {
    predicted.plain_seconds = step.seconds;
    // Nothing can save more than all of it.
    predicted.expected_seconds =
        std::max(predicted.expected_seconds, step.seconds - step.exposed_seconds);
  }
  if (step.is_slower) predicted.plain_seconds = running.plain_seconds;
  if (predicted.methods == running.methods) predicted.expected_seconds = step.seconds;
  if (predicted.expected_seconds > (1 - kLeastGain) * predicted.plain_seconds) {
    predicted.methods.clear();
    predicted.loss = 0;
    predicted.expected_seconds = predicted.plain_seconds;
  }
  return predicted;
}

double usual_seconds(std::vector<double> seconds) {
  const double longest = kLongestStep * *std::ranges::min_element(seconds);
  const auto is_long = [&](double step) { return step > longest; };
  // More of them are no exceptions: something has changed for good.
  const bool are_few = 3 * std::ranges::count_if(seconds, is_long) <= std::ssize(seconds);
  if (are_few) std::erase_if(seconds, is_long);
  return median(std::move(seconds));
}

Verdict judge(const Decision& decision, double measured_seconds) {
  if (decision.compresses() && measured_seconds > (1 + kTolerance) * decision.plain_seconds) {
    return Verdict::slower;
  }
  const double difference = std::abs(measured_seconds - decision.expected_seconds);
  return difference > kSurprise * decision.expected_seconds ? Verdict::surprising
                                                            : Verdict::as_expected;
}

std::string describe(const Decision& decision, const Profile& profile) {
  std::map<Method, double> bytes;
  for (const ParameterShape& parameter : profile.parameters) {
    const auto found = decision.methods.find(parameter.name);
    const Method method = found == decision.methods.end() ? Method::allreduce : found->second;
    bytes[method] += parameter.bytes();
  }
  std::string text = "auto:";
  const char* separator = " ";
  for (const auto& [method, part] : bytes) {
    text += separator + std::string(name_of(method)) + " for " +
            percent(part / profile.gradient_bytes()) + " of the gradient";
    separator = ", ";
  }
  return text + "; a step is expected to take " + describe_seconds(decision.expected_seconds) +
         ", uncompressed " + describe_seconds(decision.plain_seconds);
}

json to_json(const Decision& decision) {
  json methods = json::object();
  for (const auto& [name, method] : decision.methods) methods[name] = name_of(method);
  return {{"format", kFormat},
          {"methods", methods},
          {"expected_seconds", decision.expected_seconds},
          {"plain_seconds", decision.plain_seconds},
          {"loss", decision.loss}};
}

Decision decision_from_json(const json& value) {
  const JsonObject object(value, "decision");
  object.require_format(kFormat);
  object.allow_only({"format", "methods", "expected_seconds", "plain_seconds", "loss"});
  Decision decision{.methods = {},
                    .expected_seconds = object.number("expected_seconds"),
                    .plain_seconds = object.number("plain_seconds"),
                    .loss = object.number("loss")};
  const JsonObject methods = object.object("methods");
  for (const auto& [name, method] : object.at("methods").items()) {
    decision.methods[name] = method_named(methods.text(name));
  }
  return decision;
}

}  // namespace gradwire::planner
