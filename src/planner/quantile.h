#pragma once

#include <vector>

namespace gradwire::planner {

// Between two values where it falls between them; neither is for no values at all.
double quantile(const std::vector<double>& sorted, double part);
double median(std::vector<double> values);

}  // namespace gradwire::planner
