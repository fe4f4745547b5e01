#pragma once

// What method `auto` decides: one method for the whole model, or none.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/choose.h"

namespace gradwire {

// The name under which a decision has the method of all parameters.
inline constexpr const char* kWholeModel = "*";

struct Decision {
  // Method by parameter. Version 0.1.0 decided for each bucket, and its states still load; now
  // there is one entry, kWholeModel, or none for plain all-reduce.
  std::map<std::string, std::string> methods = {};
  double expected_seconds = 0;  // of a step: predicted, then measured
  double plain_seconds = 0;     // of a step without compression
  double loss = 0;              // the planner's MethodModel::loss

  bool compresses() const { return !methods.empty(); }
  LossClass loss_class() const { return planner::loss_class_of(loss); }
};

using planner::required_part;

// The decision to stay with, by the rule of planner::best_of().
const Decision& best_of(const std::vector<Decision>& decisions);

// Whether a step took so much longer or shorter than expected that it is time to measure again.
bool is_surprising(const Decision& decision, double measured_seconds);

// The median of steps. Steps of more than three times the shortest are left out if they are few:
// something else, such as an evaluation or a checkpoint, ran in between.
double usual_seconds(std::vector<double> seconds);

// "auto: acpsgd; a step is expected to take 32.3 ms, uncompressed 904 ms"
std::string describe(const Decision& decision);

nlohmann::json to_json(const Decision& decision);
// Throws std::invalid_argument naming the field that is wrong.
Decision decision_from_json(const nlohmann::json& value);

}  // namespace gradwire
