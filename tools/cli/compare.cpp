#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/output_file.h"
#include "cli/report.h"
#include "cli/train.h"
#include "cli/training_world.h"
#include "gradwire/methods.h"
#include "trainer/method_argument.h"
#include "trainer/training.h"

namespace gradwire {
namespace {

using nlohmann::json;

struct CompareOptions {
  TrainingWorld world;
  std::string methods = "all";
  std::string report;
};

template <typename... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, arguments...);
  return text;
}

using Row = std::vector<std::string>;

Row row_of(const json& result) {
  const json& last = result["epochs"].back();
  const json& wire = result["wire"];
  const double steps = std::max<double>(1, wire["steps"]);
  return {result["name"],
          format("%.2f %%", 100 * last["test_accuracy"].get<double>()),
          format("%.4f", last["test_loss"].get<double>()),
          format("%.4f", result["seconds_per_step"].get<double>()),
          format("%.4f", wire["sent_bytes"].get<double>() / steps / 1e6),
          format("%.1fx", wire["code_ratio"].get<double>()),
          format("%.1fx", wire["wire_ratio"].get<double>())};
}

// The first column is aligned to the left, all others to the right.
void print_table(const json& results) {
  std::vector<Row> rows = {{"method", "test accuracy", "test loss", "s / step", "MB sent / step",
                            "compression", "wire ratio"}};
  for (const json& result : results) rows.push_back(row_of(result));
  std::printf("\n");
  for (const Row& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      size_t width = 0;
      for (const Row& other : rows) width = std::max(width, other[column].size());
      const auto padding = static_cast<int>(width);
      std::printf(column == 0 ? "%-*s" : "  %*s", padding, row[column].c_str());
    }
    std::printf("\n");
  }
}

std::string colour_of(const std::string& name) {
  const std::vector<MethodDescription> known = methods();
  return std::ranges::find(known, name, &MethodDescription::name)->colour;
}

// Called by worker 0.
void show_and_write(const CompareOptions& options, const json& results) {
  print_table(results);
  std::string file = options.world.json_file;
  if (!options.report.empty() && file.empty()) {
    std::filesystem::create_directories(options.report);
    file = options.report + "/results.json";
  }
  write_file(file, json{{"results", results}}.dump(2) + "\n");
  if (!options.report.empty()) {
    std::printf("\nReport: %s\n", write_report(file, options.report).c_str());
  }
}

void compare(const CompareOptions& options) {
  const std::vector<std::string> names = trainer::split_methods(options.methods);
  std::vector<Request> methods;
  for (const std::string& name : names) methods.push_back(trainer::parse_method(name));
  options.world.run([&](const auto& group, const data::Dataset& dataset, const auto& make_model) {
    json results = json::array();
    for (size_t i = 0; i < methods.size(); ++i) {
      trainer::Settings settings = options.world.settings;
      if (!settings.checkpoint.empty()) settings.checkpoint += "/" + names[i];
      json result = trainer::train(settings, methods[i], names[i], dataset, make_model(), group);
      result["name"] = names[i];
      result["colour"] = colour_of(methods[i].method);
      results.push_back(std::move(result));
    }
    if (group->getRank() == 0) show_and_write(options, results);
  });
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "Trains a model with several methods, one after the other, and prints one table. All begin\n"
      "with the same weights and have the same samples and settings.\n\n"
      "  gradwire compare --methods all --workers 4 --report report");
  command->add_option("--methods", options->methods, "all, or NAME[:key=value,...],NAME,...")
      ->capture_default_str();
  options->world.add_options(*command);
  command->add_option("--report", options->report,
                      "write a page with pictures into this folder (needs Python with matplotlib)");
  command->callback([options] { compare(*options); });
}

}  // namespace gradwire
