#include "cli/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "cli/speed_up_plot.h"
#include "planner/device.h"
#include "planner/model_shapes.h"
#include "planner/profile_json.h"
#include "planner/quantity.h"
#include "planner/sweep.h"

namespace gradwire {
namespace {

using namespace planner;

struct Settings {
  std::string model = "bert-base";
  std::string profile_file;
  std::string compute;
  std::vector<int64_t> workers = {8, 32, 128, 1024};
  std::vector<std::string> bandwidths = {"1gbit", "10gbit", "25gbit", "100gbit", "400gbit"};
  std::string latency = "20us";
  int64_t workers_per_node = 1;
  std::string node_bandwidth = "200gbit";
  std::string node_latency = "5us";
  std::string all_reduce = "fastest";
  std::string device = "gpu";
  std::optional<double> device_memory_gbs;
  std::optional<double> device_tflops;
  std::vector<std::string> methods;
  MethodChoice options;
  std::string json_file;
  std::string plot_file;
};

Device device_of(const Settings& settings) {
  Device device = default_device(settings.device == "cpu" ? DeviceKind::cpu : DeviceKind::gpu);
  if (settings.device_memory_gbs) device.memory_bandwidth = *settings.device_memory_gbs * 1e9;
  if (settings.device_tflops) device.flops_per_second = *settings.device_tflops * 1e12;
  return device;
}

AllReduce all_reduce_of(const Settings& settings) {
  if (settings.all_reduce == "ring") return AllReduce::ring;
  return settings.all_reduce == "tree" ? AllReduce::tree : AllReduce::fastest;
}

Profile profile_of(const Settings& settings) {
  const Device device = device_of(settings);
  if (!settings.profile_file.empty()) {
    Profile profile = read_profile(settings.profile_file, coding_rates(device));
    if (std::isinf(profile.flops_per_second)) profile.flops_per_second = device.flops_per_second;
    return profile;
  }
  if (settings.compute.empty()) {
    throw std::invalid_argument(
        "--compute is missing: the seconds of one forward and backward pass on one worker");
  }
  const double compute = parse_seconds(settings.compute);
  if (compute == 0) throw std::invalid_argument("--compute must be more than 0");
  Profile profile = model_profile(settings.model, compute);
  profile.rates = coding_rates(device);
  profile.flops_per_second = device.flops_per_second;
  return profile;
}

std::vector<MethodChoice> methods_of(const Settings& settings) {
  std::vector<MethodChoice> choices;
  const auto add = [&](Method method) {
    const bool is_known =
        std::ranges::any_of(choices, [&](const MethodChoice& c) { return c.method == method; });
    if (is_known) return;
    choices.push_back(settings.options);
    choices.back().method = method;
  };
  add(Method::allreduce);  // what all others are compared with
  for (const std::string& name : settings.methods) add(method_named(name));
  if (settings.methods.empty()) std::ranges::for_each(kAllMethods, add);
  return choices;
}

SweepRequest request_of(const Settings& settings) {
  SweepRequest request{
      .profile = profile_of(settings),
      .network = {.workers = 1,
                  .between_nodes = {.latency = parse_seconds(settings.latency)},
                  .workers_per_node = settings.workers_per_node,
                  .inside_node = {.latency = parse_seconds(settings.node_latency),
                                  .bandwidth = parse_bandwidth(settings.node_bandwidth)},
                  .all_reduce = all_reduce_of(settings)},
      .workers = settings.workers,
      .methods = methods_of(settings)};
  for (const std::string& text : settings.bandwidths) {
    request.bandwidths.push_back(parse_bandwidth(text));
  }
  std::ranges::sort(request.workers);
  std::ranges::sort(request.bandwidths);
  return request;
}

std::string describe(const BreakEven& where) {
  switch (where.helps) {
    case Helps::never:
      return "never";
    case Helps::always:
      return "always";
    case Helps::below:
      return "below " + describe_bandwidth(where.bandwidth);
  }
  throw std::logic_error("not an answer");
}

std::string describe_seconds(double seconds) {
  char text[32];
  if (seconds < 0.9995) {
    std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.3g s", seconds);
  }
  return text;
}

// Rows are methods, columns bandwidths: seconds per iteration and speed-up over all-reduce. The
// recommended method of each column has a star.
void print_table(const SweepRequest& request, const Sweep& sweep, size_t row_of_workers) {
  const size_t columns = request.bandwidths.size();
  const SweepPoint* points = &sweep.points[row_of_workers * columns];
  std::printf("\n%lld workers\n%-12s", static_cast<long long>(points->workers), "");
  for (const double bandwidth : request.bandwidths) {
    std::printf("%18s", describe_bandwidth(bandwidth).c_str());
  }
  std::printf("    faster than all-reduce\n");
  for (size_t method = 0; method < request.methods.size(); ++method) {
    const Method name = request.methods[method].method;
    std::printf("%-12s", std::string(name_of(name)).c_str());
    for (size_t column = 0; column < columns; ++column) {
      const SweepPoint& point = points[column];
      std::printf("%9s %6.2fx%c", describe_seconds(point.predictions[method].seconds).c_str(),
                  point.speed_up(method), point.recommended == name ? '*' : ' ');
    }
    const BreakEven& where = sweep.break_even[row_of_workers][method];
    std::printf("    %s\n", name == Method::allreduce ? "" : describe(where).c_str());
  }
}

void print(const SweepRequest& request, const Sweep& sweep) {
  std::printf("%s: %.1f MB of gradient in %zu bucket%s, %s of compute\n",
              request.profile.name.c_str(), request.profile.gradient_bytes() / 1e6,
              request.profile.buckets.size(), request.profile.buckets.size() == 1 ? "" : "s",
              describe_seconds(request.profile.compute_seconds()).c_str());
  for (size_t row = 0; row < request.workers.size(); ++row) print_table(request, sweep, row);
  std::printf("\n* the least lossy within 2 %% of the fastest\n\n%s\n",
              advice(request, sweep).c_str());
}

void write(const std::string& file, const std::string& content) {
  std::ofstream stream(file);
  stream << content;
  if (!stream.flush()) throw std::runtime_error("cannot write " + file);
}

void run_plan(const Settings& settings) {
  const SweepRequest request = request_of(settings);
  const Sweep result = sweep(request);
  print(request, result);
  std::cout << std::flush;
  if (!settings.json_file.empty()) {
    write(settings.json_file, to_json(request, result).dump(2) + "\n");
  }
  if (!settings.plot_file.empty()) write(settings.plot_file, speed_up_plot(request));
}

void add_job_options(CLI::App& plan, Settings& settings) {
  CLI::Option* model = plan.add_option("--model", settings.model, "a built-in model")
                           ->check(CLI::IsMember(model_names()))
                           ->capture_default_str();
  CLI::Option* compute =
      plan.add_option("--compute", settings.compute,
                      "time of forward and backward on one worker, e.g. 0.2 or 180ms");
  plan.add_option("--profile", settings.profile_file, "a profile recorded from a run, as JSON")
      ->excludes(model)
      ->excludes(compute);
  plan.add_option("--device", settings.device,
                  "what encodes and decodes, for methods whose rates the profile does not have")
      ->check(CLI::IsMember({"gpu", "cpu"}))
      ->capture_default_str();
  plan.add_option("--device-memory-gbs", settings.device_memory_gbs,
                  "its memory bandwidth in GB/s (gpu: 600, cpu: 30)")
      ->check(CLI::PositiveNumber);
  plan.add_option("--device-tflops", settings.device_tflops,
                  "its fp32 arithmetic in Tflop/s (gpu: 13, cpu: 0.13)")
      ->check(CLI::PositiveNumber);
}

void add_network_options(CLI::App& plan, Settings& settings) {
  plan.add_option("--workers", settings.workers, "numbers of workers, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan.add_option("--bandwidth", settings.bandwidths,
                  "of each node's link to the others, separated by commas, e.g. 1gbit,10gbit")
      ->delimiter(',')
      ->capture_default_str();
  plan.add_option("--latency", settings.latency, "of a message between nodes, e.g. 20us")
      ->capture_default_str();
  plan.add_option("--workers-per-node", settings.workers_per_node,
                  "workers that share a node and its link")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan.add_option("--node-bandwidth", settings.node_bandwidth,
                  "of each worker's link inside its node")
      ->capture_default_str();
  plan.add_option("--node-latency", settings.node_latency, "of a message inside a node")
      ->capture_default_str();
  plan.add_option("--all-reduce", settings.all_reduce,
                  "how it is done; fastest takes the better for each size")
      ->check(CLI::IsMember({"ring", "tree", "fastest"}))
      ->capture_default_str();
}

void add_method_options(CLI::App& plan, Settings& settings) {
  plan.add_option("--methods", settings.methods,
                  "methods to compare, separated by commas (otherwise all)")
      ->delimiter(',');
  plan.add_option("--rank", settings.options.rank, "of powersgd and acpsgd")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan.add_option("--min-ratio", settings.options.min_ratio,
                  "powersgd and acpsgd compress a matrix if it gets smaller by this")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  plan.add_option("--density", settings.options.density, "of topk")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  plan.add_option("--adacomp-conv-rate", settings.options.conv_rate,
                  "compression rate of adacomp for convolutions")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan.add_option("--adacomp-dense-rate", settings.options.dense_rate,
                  "compression rate of adacomp for everything else")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace

void add_plan(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* plan = app.add_subcommand(
      "plan", "Predicted time of a training iteration with each method, over workers x bandwidth");
  add_job_options(*plan, *settings);
  add_network_options(*plan, *settings);
  add_method_options(*plan, *settings);
  plan->add_option("--json", settings->json_file, "write the figures to this file");
  plan->add_option("--plot", settings->plot_file,
                   "draw the speed-ups over the bandwidth into this SVG file");
  plan->callback([settings] { run_plan(*settings); });
}

}  // namespace gradwire
