#include "cli/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "cli/output_file.h"
#include "cli/speed_up_plot.h"
#include "planner/json_object.h"
#include "planner/model_shapes.h"
#include "planner/plan.h"
#include "planner/quantity.h"

namespace gradwire {
namespace {

using namespace planner;

struct PlanOptions {
  PlanRequest request;
  std::string parameters_file;
  std::string profile_file;
  std::string link_file;
  std::string json_file;
  std::string plot_file;
};

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

// Rows are methods with their class of loss, columns bandwidths: seconds per iteration and speed-up
// over all-reduce. The recommended method of each column has a star.
void print_table(const SweepRequest& request, const Sweep& sweep, size_t row_of_workers) {
  const size_t columns = request.bandwidths.size();
  const SweepPoint* points = &sweep.points[row_of_workers * columns];
  std::printf("\n%lld workers\n%-20s", static_cast<long long>(points->workers), "");
  for (const double bandwidth : request.bandwidths) {
    std::printf("%18s", describe_bandwidth(bandwidth).c_str());
  }
  std::printf("    faster than all-reduce\n");
  for (size_t method = 0; method < request.methods.size(); ++method) {
    const MethodModel* model = request.methods[method].model;
    std::printf("%-12s%-8s", model->name.c_str(), name_of(model->loss_class()).c_str());
    for (size_t column = 0; column < columns; ++column) {
      const SweepPoint& point = points[column];
      std::printf("%9s %6.2fx%c", describe_seconds(point.predictions[method].seconds).c_str(),
                  point.speed_up(method), point.recommended == model ? '*' : ' ');
    }
    const BreakEven& where = sweep.break_even[row_of_workers][method];
    std::printf("    %s\n", model->is_plain() ? "" : describe(where).c_str());
  }
}

void print(const SweepRequest& request, const Sweep& sweep) {
  std::printf("%s: %.1f MB of gradient in %zu bucket%s, %s of compute\n",
              request.profile.name.c_str(), request.profile.gradient_bytes() / 1e6,
              request.profile.buckets.size(), request.profile.buckets.size() == 1 ? "" : "s",
              describe_seconds(request.profile.compute_seconds()).c_str());
  for (size_t row = 0; row < request.workers.size(); ++row) print_table(request, sweep, row);
  std::printf("\n* advised\n\n%s\n", advice(request, sweep).c_str());
  const std::vector<MethodChoice> methods = advised(request, sweep);
  for (const MethodChoice& method : methods) {
    std::printf("  %-12s%-8s  %s\n", method.model->name.c_str(),
                name_of(method.model->loss_class()).c_str(), method.recipe().c_str());
  }
  const std::string delayed = possibility(request, sweep);
  if (!delayed.empty()) std::printf("%s\n", delayed.c_str());
  if (!methods.empty() || !delayed.empty()) {
    std::printf("What this costs in accuracy: %s\n", kReadOn);
  }
}

void run_plan(PlanOptions& settings, const MethodModels& models) {
  if (!settings.profile_file.empty()) {
    settings.request.profile = read_json(settings.profile_file, "profile");
  }
  if (!settings.parameters_file.empty()) {
    settings.request.parameters = read_json(settings.parameters_file, "parameters");
  }
  if (!settings.link_file.empty()) settings.request.link = read_json(settings.link_file, "link");
  const SweepRequest request = sweep_request(settings.request, models);
  const Sweep result = sweep(request);
  print(request, result);
  std::cout << std::flush;
  write_file(settings.json_file, to_json(request, result).dump(2) + "\n");
  if (!settings.plot_file.empty()) write_file(settings.plot_file, speed_up_plot(request));
}

void add_job_options(CLI::App& plan, PlanOptions& settings) {
  PlanRequest& request = settings.request;
  CLI::Option* model = plan.add_option("--model", request.model, "a built-in model")
                           ->check(CLI::IsMember(model_names()))
                           ->capture_default_str();
  CLI::Option* parameters =
      plan.add_option("--parameters", settings.parameters_file,
                      "any other model, by a JSON file with a list of {\"name\": \"fc.weight\", "
                      "\"shape\": [10, 20]} in the order of its definition")
          ->excludes(model);
  plan.add_option("--compute", request.compute,
                  "time of forward and backward on one worker, e.g. 0.2 or 180ms; scales the "
                  "compute times of --profile");
  plan.add_option("--profile", settings.profile_file, "a profile recorded from a run, as JSON")
      ->excludes(model)
      ->excludes(parameters);
  plan.add_option("--device", request.device,
                  "what encodes and decodes, for methods whose rates the profile does not have "
                  "(otherwise the profile's own, or gpu)")
      ->check(CLI::IsMember({"gpu", "cpu"}));
  plan.add_option("--device-memory-gbs", request.device_memory_gbs,
                  "its memory bandwidth in GB/s (gpu: 600, cpu: 30)");
  plan.add_option("--device-tflops", request.device_tflops,
                  "its fp32 arithmetic in Tflop/s (gpu: 13, cpu: 0.13)");
}

void add_network_options(CLI::App& plan, PlanOptions& settings) {
  PlanRequest& request = settings.request;
  plan.add_option("--workers", request.workers,
                  "numbers of workers, separated by commas (otherwise those of --link, or "
                  "8,32,128,1024)")
      ->delimiter(',');
  plan.add_option("--bandwidth", request.bandwidths,
                  "of each node's link to the others, separated by commas, e.g. 1gbit,10gbit "
                  "(otherwise that of --link, or 1,10,25,100,400 Gb/s)")
      ->delimiter(',');
  CLI::Option* latency =
      plan.add_option("--latency", request.latency, "of a message between nodes, e.g. 20us")
          ->capture_default_str();
  plan.add_option("--workers-per-node", request.workers_per_node,
                  "workers that share a node and its link")
      ->capture_default_str();
  plan.add_option("--node-bandwidth", request.node_bandwidth,
                  "of each worker's link inside its node")
      ->capture_default_str();
  plan.add_option("--node-latency", request.node_latency, "of a message inside a node")
      ->capture_default_str();
  CLI::Option* all_reduce =
      plan.add_option("--all-reduce", request.all_reduce,
                      "how it is done; fastest takes the better for each size")
          ->check(CLI::IsMember({"ring", "tree", "fastest"}))
          ->capture_default_str();
  plan.add_option("--link", settings.link_file, "what `gradwire probe --json` wrote")
      ->excludes(latency)
      ->excludes(all_reduce);
}

// An option that several models have is one option.
void add_method_options(CLI::App& plan, PlanRequest& request, const MethodModels& models) {
  plan.add_option("--methods", request.methods,
                  "methods to compare, separated by commas (otherwise all)")
      ->delimiter(',');
  plan.add_flag("--delayed", request.delayed,
                "also advise methods that send a part of the gradient steps later");
  std::map<std::string, std::string> methods;  // by option
  for (const MethodModel* model : models) {
    for (const ModelOption& option : model->options) {
      std::string& of = methods[option.name];
      of += (of.empty() ? "" : ", ") + model->name;
    }
  }
  for (const MethodModel* model : models) {
    for (const ModelOption& option : model->options) {
      const auto first = methods.extract(option.name);
      if (!first) continue;
      std::string flag = "--" + option.name;
      std::ranges::replace(flag, '_', '-');
      const std::string meaning = option.meaning + " (" + first.mapped() + ")";
      const auto take = [&request, name = option.name](const auto& value) {
        request.options[name] = value;
      };
      std::visit(
          [&]<typename Value>(const Value& otherwise) {
            std::ostringstream text;
            text << otherwise;
            plan.add_option_function<Value>(flag, take, meaning)->default_str(text.str());
          },
          option.default_value);
    }
  }
}

}  // namespace

void add_plan(CLI::App& app, const MethodModels& models) {
  auto settings = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand(
      "plan", "Predicted time of a training iteration with each method, over workers x bandwidth");
  add_job_options(*plan, *settings);
  add_network_options(*plan, *settings);
  add_method_options(*plan, settings->request, models);
  plan->add_option("--json", settings->json_file, "write the figures to this file");
  plan->add_option("--plot", settings->plot_file,
                   "draw the speed-ups over the bandwidth into this SVG file");
  plan->callback([settings, &models] { run_plan(*settings, models); });
}

}  // namespace gradwire
