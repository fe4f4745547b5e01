#pragma once

// The file format of a profile, described in docs/plan.md.

#include <nlohmann/json_fwd.hpp>

#include "planner/profile.h"

namespace gradwire::planner {

class JsonObject;

nlohmann::json to_json(const Profile& profile);

// Its methods are of `models`. Those whose rates it does not have take them from `otherwise`.
// Throws std::invalid_argument naming the field that is wrong.
Profile profile_from_json(const nlohmann::json& value, const MethodModels& models,
                          const CodingRates& otherwise = {});

// The parameters of a model: a list of {"name": "fc.weight", "shape": [1000, 2048]} in the order of
// the model's definition. Throws as above.
std::vector<ParameterShape> parameters_from_json(const nlohmann::json& value);

// Those of `options` that the object has among its fields.
OptionMap options_from_json(const JsonObject& object, const std::vector<ModelOption>& options);

}  // namespace gradwire::planner
