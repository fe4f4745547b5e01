#pragma once

// Well-known models as shapes: every parameter exactly, and of the time of backward what each has
// a share in.

#include <string>
#include <vector>

#include "planner/profile.h"

namespace gradwire::planner {

std::vector<std::string> model_names();

// Forward takes a third of the compute time. Throws std::invalid_argument naming the models there
// are. Rates are left for the caller.
Profile model_profile(const std::string& model, double compute_seconds);

// The same of any model. Backward is divided in proportion to the elements of matrices and kernels.
Profile shapes_profile(std::vector<ParameterShape> parameters, double compute_seconds);

}  // namespace gradwire::planner
