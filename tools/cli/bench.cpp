#include "cli/bench.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/bench_limits.h"
#include "cli/bench_method.h"
#include "cli/output_file.h"

namespace gradwire {
namespace {

using bench::kWorkers;
using bench::Limits;
using bench::MethodRun;
using bench::Subject;
using nlohmann::json;

struct BenchOptions {
  int64_t megabytes = 100;
  int repeats = 9;
  int threads = 1;
  std::string only;
  std::string json_file;
};

std::vector<int> thread_counts(const BenchOptions& settings) {
  return settings.threads > 1 ? std::vector<int>{1, settings.threads} : std::vector<int>{1};
}

// One method in memory at a time, the machine's limits measured beside each of its steps.
void run(MethodRun& method, Limits& limits, const BenchOptions& settings) {
  // The first steps send more than the steady state, and touch memory for the first time.
  for (int i = 0; i < 12; ++i) method.step();
  method.measure_memory();
  limits.forget_machine();
  for (int i = 0; i < settings.repeats; ++i) {
    for (const int threads : thread_counts(settings)) {
      for (size_t phase = 0; phase < method.subject().phases(); ++phase) {
        at::set_num_threads(threads);
        limits.measure_machine(threads);
        method.step(threads);
      }
    }
  }
  method.verify();
}

json figures_of(const bench::Sample& sample, double bytes, double stream_seconds) {
  const double seconds = sample.median();
  return {{"gb_per_s", bytes / seconds / 1e9},
          {"to_stream", stream_seconds / seconds},
          {"quartiles_to_stream",
           {stream_seconds / sample.quantile(0.75), stream_seconds / sample.quantile(0.25)}}};
}

std::string phase_name(size_t phase, size_t phases) {
  if (phases == 1) return "";
  return ", step " + std::to_string(phase + 1) + " of " + std::to_string(phases);
}

// Rows for every phase and number of threads.
void report(const MethodRun& method, const Limits& limits, const BenchOptions& settings,
            json& rows) {
  const Subject& subject = method.subject();
  const double elements = static_cast<double>(c10::multiply_integers(subject.shape));
  for (const int threads : thread_counts(settings)) {
    for (size_t phase = 0; phase < subject.phases(); ++phase) {
      const bench::Timing& timing = method.timing(threads, phase);
      // The parameter's size may differ a little from what the limit was measured on.
      const double stream = limits.stream_seconds(threads) * 4 * elements / limits.gradient_bytes();
      json row = {{"method", subject.method->name},
                  {"name", subject.name + phase_name(phase, subject.phases())},
                  {"threads", threads},
                  {"encode", figures_of(timing.encode, 4 * elements, stream)},
                  {"decode", figures_of(timing.decode, 4 * elements, stream)},
                  {"payloads_decoded", method.gathers() ? kWorkers : 1},
                  {"bits_per_element", 8 * method.payload_bytes() / elements},
                  {"error", method.error()},
                  {"extra_memory", method.extra_bytes() / (4 * elements)},
                  {"payloads_in_flight", method.in_flight_bytes() / (4 * elements)}};
      if (const double operations = subject.operations(phase); operations > 0) {
        row["time_to_sgemm"] = (timing.encode.median() + timing.decode.median()) *
                               limits.sgemm_flops(threads) / operations;
      }
      if (threads > 1) {
        row["gain_of_threads"] = method.timing(1, phase).encode.median() / timing.encode.median();
      }
      rows.push_back(row);
    }
  }
}

void print(const json& report) {
  for (const json& limit : report["limits"]) {
    std::cout << std::setprecision(3) << "threads: " << limit["threads"]
              << "   streaming limit (residual += grad): " << limit["stream_gb_per_s"].get<double>()
              << " GB/s of gradient   sgemm: " << limit["sgemm_gflops"].get<double>()
              << " Gflop/s\n";
  }
  std::cout << "\nratio = the limit's time / the method's time;  x gemm = the method's time / that "
               "of its arithmetic at sgemm's rate\n\n"
            << std::left << std::setw(34) << "" << std::right << std::setw(8) << "threads"
            << std::setw(14) << "encode GB/s" << std::setw(7) << "ratio" << std::setw(14)
            << "decode GB/s" << std::setw(14) << "ratio/payload" << std::setw(8) << "x gemm"
            << std::setw(10) << "bits/el." << std::setw(11) << "in flight" << std::setw(9)
            << "scratch" << std::setw(9) << "error" << '\n'
            << std::fixed;
  for (const json& row : report["methods"]) {
    std::cout << std::setprecision(2) << std::left << std::setw(34)
              << row["name"].get<std::string>() << std::right << std::setw(8) << row["threads"]
              << std::setw(14) << row["encode"]["gb_per_s"].get<double>() << std::setw(7)
              << row["encode"]["to_stream"].get<double>() << std::setw(14)
              << row["decode"]["gb_per_s"].get<double>() << std::setw(14)
              << row["decode"]["to_stream"].get<double>() * row["payloads_decoded"].get<int>()
              << std::setw(8);
    row.contains("time_to_sgemm") ? std::cout << row["time_to_sgemm"].get<double>()
                                  : std::cout << "";
    const auto in_flight = row["payloads_in_flight"].get<double>();
    std::cout << std::setw(10) << row["bits_per_element"].get<double>() << std::setw(10)
              << 100 * in_flight << '%' << std::setw(8)
              << 100 * (row["extra_memory"].get<double>() - in_flight) << '%' << std::setw(9)
              << std::setprecision(0) << std::scientific << row["error"].get<double>() << std::fixed
              << '\n';
  }
  std::cout << "\nbeside them, milliseconds:\n" << std::setprecision(1);
  for (const auto& [name, seconds] : report["libraries"].items()) {
    std::cout << "  " << std::left << std::setw(36) << name << std::right << std::setw(9)
              << 1000 * seconds.get<double>() << '\n';
  }
}

void run_bench(const BenchOptions& settings) {
  require_writable(settings.json_file);
  at::set_num_threads(1);
  torch::manual_seed(1);
  const at::NoGradGuard no_grad;
  const std::vector<Subject> all = bench::subjects(settings.megabytes);
  Limits limits(all.front().shape);
  json report_json = {{"limits", json::array()},
                      {"workers_decoded", kWorkers},
                      {"repeats", settings.repeats},
                      {"gradient_bytes", limits.gradient_bytes()},
                      {"methods", json::array()}};
  for (const Subject& subject : all) {
    if (!subject.name.starts_with(settings.only)) continue;
    MethodRun method(subject);
    run(method, limits, settings);
    report(method, limits, settings, report_json["methods"]);
    at::set_num_threads(1);
    limits.measure_libraries();
  }
  if (report_json["methods"].empty()) {
    throw std::invalid_argument("there is nothing called \"" + settings.only + "\" to measure");
  }
  for (const int threads : thread_counts(settings)) {
    report_json["limits"].push_back(
        {{"threads", threads},
         {"stream_gb_per_s", limits.gradient_bytes() / limits.stream_seconds(threads) / 1e9},
         {"sgemm_gflops", limits.sgemm_flops(threads) / 1e9}});
  }
  for (const auto& [name, sample] : limits.libraries()) {
    report_json["libraries"][name] = sample.median();
  }
  print(report_json);
  write_file(settings.json_file, report_json.dump(2) + "\n");
}

}  // namespace

void add_bench(CLI::App& app) {
  auto settings = std::make_shared<BenchOptions>();
  CLI::App* bench = app.add_subcommand(
      "bench", "Encode and decode throughput of every method, beside the machine's own limits");
  bench->add_option("--megabytes", settings->megabytes, "gradient size")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_option("--repeats", settings->repeats, "timed steps per method")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench
      ->add_option("--threads", settings->threads,
                   "measure with this many threads too, in turn with one thread")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_option("--only", settings->only, "measure only what begins with this name");
  bench->add_option("--json", settings->json_file, "write the figures to this file");
  bench->callback([settings] { run_bench(*settings); });
}

}  // namespace gradwire
