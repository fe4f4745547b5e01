#include "cli/bench.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "methods/registry.h"

namespace gradwire {
namespace {

using nlohmann::json;

constexpr int kWorkers = 4;  // whose payloads are decoded

struct Settings {
  int64_t megabytes = 100;
  int repeats = 9;
  int threads = 1;
  std::string json_file;
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One row: what is timed, in seconds per repetition.
struct Row {
  std::string name;
  int64_t bytes;  // of gradient
  std::vector<double> encode;
  std::vector<double> decode;
  double largest_error = 0;  // relative; of what was sent plus what was kept against the gradient
};

// A method at work on one parameter, as worker 0 of several that all have the same gradient: so the
// result must be this worker's own contribution, and result + change of the residual the gradient.
class MethodRun {
 public:
  MethodRun(std::string name, const std::string& method, const OptionMap& options,
            const std::vector<int64_t>& shape)
      : row_{std::move(name), 0, {}, {}} {
    const MethodEntry& entry = find_method(method);
    const OptionMap complete = complete_options(entry, options);
    parameter_ = {"weight", at::zeros(shape)};
    method_ = entry.create(complete);
    state_ = method_->make_state(parameter_, complete);
    gradient_ = at::randn(shape);
    // Scales that differ from element to element, as those of real gradients do.
    gradient_.mul_(at::randn(shape).mul_(2).exp_());
    row_.bytes = static_cast<int64_t>(gradient_.nbytes());
  }

  void step(bool measure) {
    ++steps_;
    const at::Tensor before = residual();
    at::Tensor memory = gradient_.clone();
    auto exchange = method_->begin({{&parameter_, state_.get(), memory}},
                                   {.number = steps_, .worker = 0, .workers = kWorkers});
    Round round;
    const double encode = seconds_of([&] { round = exchange->start(); });
    double decode = 0;
    for (bool more = true; more;) {
      communicate(round);
      std::optional<Round> next;
      decode += seconds_of([&] { next = exchange->next(); });
      more = next.has_value();
      if (more) round = *next;
    }
    decode += seconds_of([&] { exchange->finish(); });
    if (!measure) return;
    row_.encode.push_back(encode);
    row_.decode.push_back(decode);
    verify(memory, before);
  }

  const Row& row() const { return row_; }

 private:
  at::Tensor residual() const {
    if (state_ == nullptr || !state_->residual().defined()) return {};
    return state_->residual().reshape(gradient_.sizes()).clone();
  }

  static void communicate(Round& round) {
    if (round.collective == Collective::all_reduce_sum) {
      round.receive.mul_(kWorkers);
    } else if (round.collective == Collective::all_gather) {
      round.receive.copy_(round.send.repeat({kWorkers}));
    } else {
      round.receive.copy_(
          round.send.narrow(0, 0, round.send.numel() / kWorkers).repeat({kWorkers}));
    }
  }

  void verify(const at::Tensor& result, const at::Tensor& before) {
    if (!before.defined()) return;
    const at::Tensor kept = result + residual() - before;
    const double error = (kept - gradient_).norm().item<double>() / gradient_.norm().item<double>();
    row_.largest_error = std::max(row_.largest_error, error);
  }

  Row row_;
  Parameter parameter_;
  std::unique_ptr<Method> method_;
  std::unique_ptr<ParameterState> state_;
  at::Tensor gradient_;
  int64_t steps_ = 0;
};

// What the machine itself can do, timed between the methods.
struct Limits {
  explicit Limits(const std::vector<int64_t>& shape)
      : residual(at::randn(shape)), gradient(at::randn(shape)), square(at::randn({1024, 1024})) {}

  void measure() {
    stream.push_back(seconds_of([&] { residual.add_(gradient); }));
    gemm.push_back(seconds_of([&] { square.mm(square); }));
  }
  double gflops() const { return 2e-9 * 1024 * 1024 * 1024 / median(gemm); }

  at::Tensor residual;
  at::Tensor gradient;
  at::Tensor square;
  std::vector<double> stream;
  std::vector<double> gemm;
};

std::vector<MethodRun> make_runs(const std::vector<int64_t>& dense) {
  const std::vector<int64_t> conv = {dense[0], dense[1] / 12, 4, 3};
  const auto has = [](const std::string& name) {
    return std::ranges::any_of(registry(), [&](const MethodEntry& e) { return e.name == name; });
  };
  std::vector<MethodRun> runs;
  const auto add = [&](const char* name, const char* method, const OptionMap& options,
                       const std::vector<int64_t>& shape) {
    if (has(method)) runs.emplace_back(name, method, options, shape);
  };
  add("half bf16", "half", {}, dense);
  add("half fp16", "half", {{"dtype", std::string("fp16")}}, dense);
  add("sign ef", "sign", {}, dense);
  add("sign vote", "sign", {{"mode", std::string("vote")}}, dense);
  add("topk 1 %", "topk", {{"density", 0.01}}, dense);
  add("topk 0.1 %", "topk", {{"density", 0.001}}, dense);
  add("adacomp bins of 500", "adacomp", {}, dense);
  add("adacomp bins of 50", "adacomp", {}, conv);
  add("powersgd rank 4", "powersgd", {}, dense);
  add("powersgd rank 32", "powersgd", {{"rank", int64_t{32}}}, dense);
  add("acpsgd rank 4", "acpsgd", {}, dense);
  add("acpsgd rank 32", "acpsgd", {{"rank", int64_t{32}}}, dense);
  return runs;
}

json to_json(const Row& row, double stream) {
  const double encode = median(row.encode);
  const double decode = median(row.decode);
  const auto bytes = static_cast<double>(row.bytes);
  return {{"name", row.name},
          {"encode_gb_per_s", bytes / encode / 1e9},
          {"decode_gb_per_s", bytes / decode / 1e9},
          {"encode_to_stream", stream / encode},
          {"decode_to_stream", stream / decode},
          {"largest_error", row.largest_error}};
}

void print(const json& report) {
  std::cout << "streaming limit (residual += grad): " << std::setprecision(3)
            << report["stream_gb_per_s"].get<double>()
            << " GB/s of gradient;  sgemm: " << report["sgemm_gflops"].get<double>()
            << " Gflop/s;  threads: " << report["threads"] << "\n\n"
            << std::left << std::setw(22) << "" << std::right << std::setw(22)
            << "encode GB/s (ratio)" << std::setw(22) << "decode GB/s (ratio)" << std::setw(12)
            << "error\n"
            << std::fixed << std::setprecision(2);
  for (const json& row : report["methods"]) {
    std::cout << std::left << std::setw(22) << row["name"].get<std::string>() << std::right
              << std::setw(14) << row["encode_gb_per_s"].get<double>() << " ("
              << row["encode_to_stream"].get<double>() << ")" << std::setw(15)
              << row["decode_gb_per_s"].get<double>() << " ("
              << row["decode_to_stream"].get<double>() << ")" << std::setw(12) << std::scientific
              << std::setprecision(1) << row["largest_error"].get<double>() << std::fixed
              << std::setprecision(2) << '\n';
  }
}

void run_bench(const Settings& settings) {
  at::set_num_threads(settings.threads);
  torch::manual_seed(1);
  const at::NoGradGuard no_grad;
  const int64_t columns = 3072;
  const std::vector<int64_t> dense = {
      std::max<int64_t>(64, settings.megabytes * 1'000'000 / 4 / columns), columns};
  Limits limits(dense);
  std::vector<Row> rows;
  // One method in memory at a time, the limit measured beside each repetition of each.
  for (MethodRun& run : make_runs(dense)) {
    // The first steps send more than the steady state, and touch memory for the first time.
    for (int i = 0; i < 12; ++i) run.step(/*measure=*/false);
    for (int i = 0; i < settings.repeats; ++i) {
      limits.measure();
      run.step(/*measure=*/true);
    }
    rows.push_back(run.row());
  }
  const double stream = median(limits.stream);
  json report = {{"stream_gb_per_s", static_cast<double>(limits.gradient.nbytes()) / stream / 1e9},
                 {"sgemm_gflops", limits.gflops()},
                 {"threads", settings.threads},
                 {"gradient_bytes", limits.gradient.nbytes()},
                 {"workers_decoded", kWorkers},
                 {"repeats", settings.repeats},
                 {"methods", json::array()}};
  for (const Row& row : rows) {
    // A check that found nothing to compare would say nothing: the bound is what fp32 sums leave.
    if (row.largest_error > 1e-3) {
      throw std::runtime_error(row.name + ": the result is wrong by " +
                               std::to_string(row.largest_error));
    }
    report["methods"].push_back(to_json(row, stream));
  }
  print(report);
  if (!settings.json_file.empty()) std::ofstream(settings.json_file) << report.dump(2) << '\n';
}

}  // namespace

void add_bench(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* bench = app.add_subcommand(
      "bench", "Encode and decode throughput of every method, beside the machine's own limits");
  bench->add_option("--megabytes", settings->megabytes, "gradient size")->capture_default_str();
  bench->add_option("--repeats", settings->repeats, "timed steps per method")
      ->capture_default_str();
  bench->add_option("--threads", settings->threads, "threads")->capture_default_str();
  bench->add_option("--json", settings->json_file, "write the figures to this file");
  bench->callback([settings] { run_bench(*settings); });
}

}  // namespace gradwire
