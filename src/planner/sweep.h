#pragma once

// Every method over numbers of workers and bandwidths, and what to make of it.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/choose.h"

namespace gradwire::planner {

struct SweepRequest {
  Profile profile;
  // But for the number of workers and the bandwidth between nodes, which vary.
  Network network;
  std::vector<int64_t> workers;
  std::vector<double> bandwidths = {};  // bytes per second
  std::vector<MethodChoice> methods;
};

struct SweepPoint {
  int64_t workers;
  double bandwidth;
  double allreduce_seconds = 0;
  std::vector<Prediction> predictions = {};  // of each method of the request
  const MethodModel* recommended =
      &plain_all_reduce();  // the least lossy within 2 % of the fastest

  double speed_up(size_t method) const { return allreduce_seconds / predictions[method].seconds; }
};

struct Sweep {
  std::vector<SweepPoint> points;  // bandwidths of the first number of workers,
                                   // then those of the second, and so on
  std::vector<std::vector<BreakEven>> break_even = {};  // [number of workers][method]
};

// Throws std::invalid_argument where the request makes no sense.
Sweep sweep(const SweepRequest& request);

// The points alone, for a plot.
std::vector<SweepPoint> sweep_points(const SweepRequest& request);

// One sentence.
std::string advice(const SweepRequest& request, const Sweep& sweep);

nlohmann::json to_json(const SweepRequest& request, const Sweep& sweep);

}  // namespace gradwire::planner
