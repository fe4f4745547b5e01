#include "cli/probe.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "auto/probe.h"
#include "cli/local_workers.h"
#include "cli/output_file.h"
#include "gradwire/process_group.h"
#include "planner/quantity.h"

namespace gradwire {
namespace {

constexpr const char* kDescription =
    "Measures latency and bandwidth between the workers with all-reduces, all-gathers and\n"
    "all-to-alls of several sizes.\n\n"
    "  gradwire probe --workers 4                              processes on this machine\n"
    "  gradwire lab --hosts 2 --rate 1gbit -- gradwire probe   emulated hosts\n"
    "  torchrun --no-python --nnodes 4 ... gradwire probe      real hosts\n\n"
    "If a launcher has set RANK, this command joins that world. Worker 0 prints the result.";

struct ProbeArguments {
  int workers = 2;
  double seconds = 5;
  std::string json_file;
};

void print(const planner::MeasuredLink& measured, double seconds) {
  std::printf("%lld workers, probed in %.1f s\n%-12s%12s%14s%8s%10s%9s\n",
              static_cast<long long>(measured.workers), seconds, "", "latency", "bandwidth", "R2",
              "residual", "spread");
  for (size_t i = 0; i < planner::kCollectives; ++i) {
    const planner::CollectiveFit& fit = measured.fits[i];
    std::printf("%-12s%9.1f us%14s%8.4f%8.1f %%%7.1f %%\n",
                std::string(name_of(static_cast<planner::Collective>(i))).c_str(),
                fit.latency * 1e6, planner::describe_bandwidth(fit.bandwidth).c_str(),
                fit.r_squared, fit.residual * 100, fit.spread * 100);
  }
  std::fflush(stdout);
}

std::string as_json(const planner::MeasuredLink& measured, double seconds) {
  nlohmann::json json = to_json(measured);
  json["probe_seconds"] = seconds;
  return json.dump(2) + "\n";
}

void join_and_probe(const ProbeArguments& settings) {
  // The default timeout is half an hour, too long to wait for a worker that never comes.
  const auto group = init_process_group({.timeout = std::chrono::minutes(2)});
  const auto begin = std::chrono::steady_clock::now();
  const planner::MeasuredLink measured =
      probe(*group, {.seconds_per_collective = settings.seconds / planner::kCollectives});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  // The store may be in worker 0, so no worker may need it when that one ends.
  group->barrier()->wait();
  if (group->getRank() != 0) return;
  print(measured, taken.count());
  write_file(settings.json_file, as_json(measured, taken.count()));
}

void run_probe(const ProbeArguments& settings) {
  if (was_launched()) return join_and_probe(settings);
  require_writable(settings.json_file);
  const int status = run_local_workers(settings.workers);
  if (status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_probe(CLI::App& app) {
  auto settings = std::make_shared<ProbeArguments>();
  CLI::App* command = app.add_subcommand("probe", kDescription);
  command
      ->add_option("--workers", settings->workers,
                   "number of local processes, if no launcher has set RANK")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  command->add_option("--seconds", settings->seconds, "about how long to measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", settings->json_file,
                      "write the result to this file, for `gradwire plan --link`");
  command->callback([settings] { run_probe(*settings); });
}

}  // namespace gradwire
