#pragma once

// What `gradwire plan` and gradwire.plan() are asked, and their common way to an answer.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/sweep.h"

namespace gradwire::planner {

// As users write it: "10gbit", "20us". What is left empty has a default.
struct PlanRequest {
  std::string model = "bert-base";
  nlohmann::json parameters;  // in place of model: a list of names and shapes; null: none
  nlohmann::json profile;     // in place of both; null: none
  std::string compute;        // with a profile, what its compute times are scaled to

  nlohmann::json link;           // of `gradwire probe`, in place of latency and all_reduce; or null
  std::vector<int64_t> workers;  // otherwise those of the link, or {8, 32, 128, 1024}
  std::vector<std::string> bandwidths;  // otherwise that of the link, or 1 to 400 Gb/s
  std::string latency = "20us";
  int64_t workers_per_node = 1;
  std::string node_bandwidth = "200gbit";
  std::string node_latency = "5us";
  std::string all_reduce = "fastest";

  std::string device;  // otherwise the profile's, or gpu
  std::optional<double> device_memory_gbs;
  std::optional<double> device_tflops;

  std::vector<std::string> methods;  // otherwise all
  OptionMap options = {};            // of the methods' models, by name
  bool delayed = false;              // whether methods that delay may be advised
};

// Both throw std::invalid_argument naming the option or field, its rule and its value.
SweepRequest sweep_request(const PlanRequest& request, const MethodModels& models);
// The fields are those above but for `options`, which are fields of their own.
PlanRequest plan_request_from_json(const nlohmann::json& value, const MethodModels& models);

}  // namespace gradwire::planner
