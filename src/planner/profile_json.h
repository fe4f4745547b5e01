#pragma once

// The file format of a profile, described in docs/plan.md.

#include <nlohmann/json_fwd.hpp>

#include "planner/profile.h"

namespace gradwire::planner {

nlohmann::json to_json(const Profile& profile);

// Methods whose rates the profile does not have take them from `otherwise`. Throws
// std::invalid_argument naming the field that is wrong.
Profile profile_from_json(const nlohmann::json& value, const CodingRates& otherwise);

}  // namespace gradwire::planner
