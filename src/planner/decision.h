#pragma once

// What method `auto` decides, and when it has to think again. The measuring is done in src/ddp.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "planner/choose.h"

namespace gradwire::planner {

// How far a step may be from what was expected of it.
inline constexpr double kSurprise = 0.20;

struct Decision {
  std::map<std::string, Method> methods = {};  // of the parameters that are compressed, by name
  double expected_seconds = 0;                 // of a step
  double plain_seconds = 0;                    // of a step without compression
  double loss = 0;  // mean place of the methods in the order of `Method`, weighted by bytes

  bool compresses() const { return !methods.empty(); }
};

// What is predicted to gain less is not tried: trying in vain costs something in every later step,
// since a Reducer cannot be relieved of its hook (docs/plan.md).
inline constexpr double kLeastGain = 0.10;

// Without the seconds.
Decision decision_of(const Profile& profile, const Assignment& assignment);

// `other_seconds` of a step are the same whatever is decided.
Decision decide(const Profile& profile, const Network& network,
                std::span<const MethodChoice> candidates, double other_seconds);

// A step as it was under the decision that is running.
struct MeasuredStep {
  double seconds = 0;
  double exposed_seconds = 0;  // of communication: after backward, and what it took from backward
  bool is_slower = false;      // than without compression
};

// Of the time that a worker has waited, after the backward of a step without compression or in it:
// the rest it has waited for slower workers, or for anything else.
double exposed_communication(const Profile& profile, const Network& network, double waited_seconds);

// What a step takes that the model does not know of, as the optimizer does, and that is not waiting
// for a network slower than the model thinks: `plain` is a step without compression.
double other_seconds(const Profile& profile, const Network& network, const MeasuredStep& plain);

// What was measured is better than what is predicted.
Decision corrected(Decision predicted, const Decision& running, const MeasuredStep& step);

// Of steps that took as long from the one to the next. Where that is now and then several times
// what it can be, something else was done in between, as an evaluation or a checkpoint.
double usual_seconds(std::vector<double> seconds);

enum class Verdict : uint8_t {
  as_expected,
  surprising,  // measure again
  slower,      // than without compression: these methods do not keep here what they promise
};

Verdict judge(const Decision& decision, double measured_seconds);

// "auto: acpsgd for 100 % of the gradient; a step is expected to take 32.3 ms, uncompressed 904 ms"
std::string describe(const Decision& decision, const Profile& profile);

nlohmann::json to_json(const Decision& decision);
// Throws std::invalid_argument naming the field that is wrong.
Decision decision_from_json(const nlohmann::json& value);

}  // namespace gradwire::planner
