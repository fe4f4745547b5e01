#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <vector>

#include "engine/routes.h"

namespace gradwire {

// Makes the routes of this request once all workers of the group have agreed that they have the
// same one, for the same parameters, and pins a SIMD target that all of them have. Collective.
//   std::invalid_argument   the request is wrong here; the other workers get a PeerError
//   PeerError               workers disagree, or one failed or never came
Routes agree_on_routes(c10d::ProcessGroup& group, const Request& request,
                       const std::vector<Parameter>& parameters);

}  // namespace gradwire
