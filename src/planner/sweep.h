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
  bool delayed = false;  // whether methods of the class delayed may be recommended
};

struct SweepPoint {
  int64_t workers;
  double bandwidth;
  double allreduce_seconds = 0;
  std::vector<Prediction> predictions = {};                      // of each method of the request
  const MethodModel* recommended = &plain_all_reduce();          // by best_of()
  const MethodModel* recommended_delayed = &plain_all_reduce();  // if such methods may be

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

// The methods that are recommended somewhere, from the least lossy to the most, but for all-reduce.
std::vector<MethodChoice> advised(const SweepRequest& request, const Sweep& sweep);

// One sentence on where methods that delay would be recommended if they might be, or nothing.
std::string possibility(const SweepRequest& request, const Sweep& sweep);

// Where to read on before following the advice.
inline constexpr const char* kReadOn = "docs/accuracy.md";

nlohmann::json to_json(const SweepRequest& request, const Sweep& sweep);

}  // namespace gradwire::planner
