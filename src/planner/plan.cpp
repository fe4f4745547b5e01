#include "planner/plan.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "planner/device.h"
#include "planner/json_object.h"
#include "planner/measured_link.h"
#include "planner/model_shapes.h"
#include "planner/profile_json.h"
#include "planner/quantity.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

const std::vector<int64_t> kWorkers = {8, 32, 128, 1024};
const std::vector<std::string> kBandwidths = {"1gbit", "10gbit", "25gbit", "100gbit", "400gbit"};

template <typename Value>
void require(bool condition, const char* option, const char* rule, const Value& value) {
  if (condition) return;
  std::ostringstream text;
  text << "[plan] " << option << " must be " << rule << "; got " << value;
  throw std::invalid_argument(text.str());
}

// These limits are far from anything real, and near enough for all figures to be finite.
constexpr int64_t kMostWorkers = 10'000'000;
constexpr double kShortestCompute = 1e-9;
constexpr double kLeastBandwidth = 1e3 / 8;
constexpr double kMostBandwidth = 1e18 / 8;

void check_count(const char* option, int64_t count) {
  require(count > 0, option, "positive", count);
  require(count <= kMostWorkers, option, "at most 10,000,000", count);
}

double seconds_in(const char* option, const std::string& text) {
  const double seconds = parse_seconds(text);
  require(seconds <= kMostSeconds, option, "at most 1e6 seconds", text);
  return seconds;
}

double bandwidth_in(const char* option, const std::string& text) {
  const double bandwidth = parse_bandwidth(text);
  require(bandwidth >= kLeastBandwidth && bandwidth <= kMostBandwidth, option,
          "from 1kbit to 1000000tbit", text);
  return bandwidth;
}

void check(const PlanRequest& request, const MethodModels& models) {
  for (const int64_t workers : request.workers) check_count("workers", workers);
  check_count("workers_per_node", request.workers_per_node);
  for (const auto& [option, value] : {std::pair("device_memory_gbs", request.device_memory_gbs),
                                      std::pair("device_tflops", request.device_tflops)}) {
    require(value.value_or(1) > 0, option, "positive", value.value_or(1));
    require(value.value_or(1) >= 1e-6 && value.value_or(1) <= 1e9, option, "from 1e-6 to 1e9",
            value.value_or(1));
  }
  for (const MethodModel* model : models) {
    for (const ModelOption& option : model->options) option.check(request.options, "[plan] ");
  }
}

std::string device_name(const PlanRequest& request) {
  if (!request.device.empty()) return request.device;
  const bool is_recorded = request.profile.is_object() && request.profile.contains("device");
  return is_recorded ? JsonObject(request.profile, "profile").text("device") : "gpu";
}

Device device_of(const PlanRequest& request) {
  const std::string name = device_name(request);
  require(name == "gpu" || name == "cpu", "device", "gpu or cpu", name);
  Device device = default_device(name == "cpu" ? DeviceKind::cpu : DeviceKind::gpu);
  if (request.device_memory_gbs) device.memory_bandwidth = *request.device_memory_gbs * 1e9;
  if (request.device_tflops) device.flops_per_second = *request.device_tflops * 1e12;
  return device;
}

AllReduce all_reduce_of(const PlanRequest& request) {
  if (request.all_reduce == "ring") return AllReduce::ring;
  if (request.all_reduce == "tree") return AllReduce::tree;
  require(request.all_reduce == "fastest", "all_reduce", "ring, tree or fastest",
          request.all_reduce);
  return AllReduce::fastest;
}

double compute_of(const PlanRequest& request) {
  if (request.compute.empty()) {
    throw std::invalid_argument(
        "[plan] compute is missing: the seconds of one forward and backward pass on one worker");
  }
  const double compute = seconds_in("compute", request.compute);
  require(compute > 0, "compute", "more than 0", request.compute);
  require(compute >= kShortestCompute, "compute", "at least 1ns", request.compute);
  return compute;
}

Profile profile_of(const PlanRequest& request, const MethodModels& models) {
  const Device device = device_of(request);
  if (!request.profile.is_null()) {
    Profile profile = profile_from_json(request.profile, models, coding_rates(device, models));
    if (!request.compute.empty()) profile.scale_compute_to(compute_of(request));
    if (std::isinf(profile.flops_per_second)) profile.flops_per_second = device.flops_per_second;
    return profile;
  }
  const double compute = compute_of(request);
  Profile profile = request.parameters.is_null()
                        ? model_profile(request.model, compute)
                        : shapes_profile(parameters_from_json(request.parameters), compute);
  profile.rates = coding_rates(device, models);
  profile.flops_per_second = device.flops_per_second;
  return profile;
}

std::vector<MethodChoice> methods_of(const PlanRequest& request, const MethodModels& models) {
  std::vector<MethodChoice> choices = {{}};  // plain all-reduce, which all others are compared with
  const auto add = [&](const MethodModel& model) {
    const bool is_known = std::ranges::any_of(
        choices, [&](const MethodChoice& c) { return c.model->name == model.name; });
    if (!is_known) choices.push_back({&model, request.options});
  };
  for (const std::string& name : request.methods) add(method_named(models, name));
  if (request.methods.empty()) {
    for (const MethodModel* model : models) add(*model);
  }
  return choices;
}

// The probe's figures are those of rings.
void use_link(SweepRequest& sweep, const PlanRequest& request) {
  const MeasuredLink measured = measured_link_from_json(request.link);
  check_count("the link's workers", measured.workers);
  sweep.network.between_nodes.latency = measured.link().latency;
  sweep.network.all_reduce = AllReduce::ring;
  sweep.network.slowness = measured.slowness();
  if (request.workers.empty()) sweep.workers = {measured.workers};
  if (request.bandwidths.empty()) sweep.bandwidths = {measured.link().bandwidth};
}

// Reads the fields that are there and remembers which there may be.
struct FieldReader {
  const JsonObject& object;
  std::set<std::string> known = {};

  template <typename Value>
  void operator()(const char* field, Value& value) {
    known.insert(field);
    if (!object.has(field)) return;
    if constexpr (std::is_same_v<Value, json>) {
      value = object.at(field);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      value = object.text(field);
    } else if constexpr (std::is_same_v<Value, bool>) {
      value = object.flag(field);
    } else if constexpr (std::is_same_v<Value, int64_t>) {
      value = object.integer(field);
    } else if constexpr (std::is_same_v<Value, std::vector<int64_t>>) {
      value = object.integers(field);
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      value = object.texts(field);
    } else {
      value = object.number(field);
    }
  }
};

}  // namespace

SweepRequest sweep_request(const PlanRequest& request, const MethodModels& models) {
  check(request, models);
  SweepRequest sweep{
      .profile = profile_of(request, models),
      .network = {.workers = 1,
                  .between_nodes = {.latency = seconds_in("latency", request.latency)},
                  .workers_per_node = request.workers_per_node,
                  .inside_node = {.latency = seconds_in("node_latency", request.node_latency),
                                  .bandwidth =
                                      bandwidth_in("node_bandwidth", request.node_bandwidth)},
                  .all_reduce = all_reduce_of(request)},
      .workers = request.workers.empty() ? kWorkers : request.workers,
      .methods = methods_of(request, models),
      .delayed = request.delayed};
  for (const std::string& text : request.bandwidths.empty() ? kBandwidths : request.bandwidths) {
    sweep.bandwidths.push_back(bandwidth_in("bandwidth", text));
  }
  if (!request.link.is_null()) use_link(sweep, request);
  std::ranges::sort(sweep.workers);
  std::ranges::sort(sweep.bandwidths);
  return sweep;
}

PlanRequest plan_request_from_json(const json& value, const MethodModels& models) {
  const JsonObject object(value, "plan");
  FieldReader read{object};
  PlanRequest request;
  read("model", request.model);
  read("parameters", request.parameters);
  read("profile", request.profile);
  read("compute", request.compute);
  read("link", request.link);
  read("workers", request.workers);
  read("bandwidth", request.bandwidths);
  read("latency", request.latency);
  read("workers_per_node", request.workers_per_node);
  read("node_bandwidth", request.node_bandwidth);
  read("node_latency", request.node_latency);
  read("all_reduce", request.all_reduce);
  read("device", request.device);
  read("device_memory_gbs", request.device_memory_gbs);
  read("device_tflops", request.device_tflops);
  read("methods", request.methods);
  read("delayed", request.delayed);
  for (const MethodModel* model : models) {
    for (const ModelOption& option : model->options) read.known.insert(option.name);
    request.options.merge(options_from_json(object, model->options));
  }
  object.allow_only(read.known);
  return request;
}

}  // namespace gradwire::planner
