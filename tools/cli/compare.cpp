#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

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
  int further_seeds = 0;
  std::string report;

  bool is_timed() const { return world.settings.seconds > 0; }
};

template <typename... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, arguments...);
  return text;
}

using Row = std::vector<std::string>;

double accuracy_of(const json& result) { return result["epochs"].back()["test_accuracy"]; }

std::string percent(double part) { return format("%.2f %%", 100 * part); }

// Training time until a test found this accuracy, by a straight line from the test before; null if
// none did.
json seconds_to(double accuracy, const json& result) {
  double seconds = 0;
  double before = 0;
  for (const json& test : result["epochs"]) {
    const double here = test["test_accuracy"];
    const double elapsed = test["elapsed_seconds"];
    if (here >= accuracy) {
      const double way = here > before ? (accuracy - before) / (here - before) : 1;
      return seconds + way * (elapsed - seconds);
    }
    seconds = elapsed;
    before = here;
  }
  return nullptr;
}

// What plain all-reduce is compared by: the accuracy that it ends with.
const json* plain_of(const json& results) {
  for (const json& result : results) {
    if (result["method"] == "allreduce") return &result;
  }
  return nullptr;
}

void note_time_to_target(json& comparison) {
  const json* plain = plain_of(comparison["results"]);
  if (plain == nullptr) return;
  const double target = accuracy_of(*plain);
  comparison["target_accuracy"] = target;
  for (json& result : comparison["results"]) {
    result["seconds_to_target"] = seconds_to(target, result);
  }
}

// A column of the table: its title and what it says of a result.
struct Column {
  std::string title;
  std::function<std::string(const json& result)> text;
};

std::vector<Column> columns_of(const json& comparison, bool is_timed) {
  std::vector<Column> columns = {
      {"method", [](const json& result) { return result["name"]; }},
      {"class of loss", [](const json& result) { return result["wire"]["loss_class"]; }},
      {"test accuracy", [](const json& result) { return percent(accuracy_of(result)); }}};
  if (is_timed && comparison.contains("target_accuracy")) {
    columns.push_back({"time to " + percent(comparison["target_accuracy"]), [](const json& result) {
                         const json& seconds = result["seconds_to_target"];
                         return seconds.is_null() ? "not reached"
                                                  : format("%.1f s", seconds.get<double>());
                       }});
  } else {
    columns.push_back({"test loss", [](const json& result) {
                         return format("%.4f", result["epochs"].back()["test_loss"].get<double>());
                       }});
  }
  const std::vector<Column> common = {
      {"s / step",
       [](const json& result) { return format("%.4f", result["seconds_per_step"].get<double>()); }},
      {"MB sent / step",
       [](const json& result) {
         const double steps = std::max<double>(1, result["wire"]["steps"]);
         return format("%.4f", result["wire"]["sent_bytes"].get<double>() / steps / 1e6);
       }},
      {"compression",
       [](const json& result) {
         return format("%.1fx", result["wire"]["code_ratio"].get<double>());
       }},
      {"wire ratio", [](const json& result) {
         return format("%.1fx", result["wire"]["wire_ratio"].get<double>());
       }}};
  columns.insert(columns.end(), common.begin(), common.end());
  return columns;
}

// The first column is aligned to the left, all others to the right.
void print_table(const json& results, const std::vector<Column>& columns) {
  std::vector<Row> rows(1);
  for (const Column& column : columns) rows[0].push_back(column.title);
  for (const json& result : results) {
    Row& row = rows.emplace_back();
    for (const Column& column : columns) row.push_back(column.text(result));
  }
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

// What the table is of, and what plain all-reduce spends its time with.
std::string describe_setting(const json& comparison) {
  const json& first = comparison["results"][0];
  const std::string link = first["link"].is_null()
                               ? " without emulated links"
                               : " joined by emulated links of " + first["link"].get<std::string>();
  std::string text = first["model"].get<std::string>() + " on " + first["data"].get<std::string>() +
                     ", " + std::to_string(first["workers"].get<int>()) + " workers" + link +
                     ", each method for " + format("%g", first["seconds"].get<double>()) +
                     " s of training.";
  if (const json* plain = plain_of(comparison["results"])) {
    const double step = (*plain)["seconds_per_step"];
    const double compute = comparison["compute_seconds_per_step"];
    text += format(" A step of all-reduce takes %.0f ms, of which the computation needs %.0f ms: ",
                   1e3 * step, 1e3 * compute) +
            format("%.0f %% is waiting for the network.", 100 * std::max(0.0, 1 - compute / step));
  }
  return text;
}

std::string describe_spread(const json& spread) {
  std::string accuracies;
  for (const json& accuracy : spread["test_accuracy"]) {
    accuracies += (accuracies.empty() ? "" : ", ") + percent(accuracy);
  }
  const auto [least, most] =
      std::ranges::minmax(spread["test_accuracy"].get<std::vector<double>>());
  return "Chance: with " + std::to_string(spread["seeds"].size()) + " seeds " +
         spread["name"].get<std::string>() + " ended with " + accuracies +
         format(". Do not read much into differences below %.1f points.", 100 * (most - least));
}

std::string colour_of(const std::string& name) {
  const std::vector<MethodDescription> known = methods();
  return std::ranges::find(known, name, &MethodDescription::name)->colour;
}

// "auto ended with quant bits=4 block=0 error_feedback=True."
std::string describe_choice(const json& result) {
  std::set<std::string> ways;
  for (const json& way : result["wire"]["plan"]) ways.insert(way.get<std::string>());
  std::string text;
  for (const std::string& way : ways) text += (text.empty() ? "" : " and ") + way;
  return result["name"].get<std::string>() + " ended with " + text + ".";
}

// What belongs beside the table.
json notes_on(const json& comparison) {
  json notes = json::array();
  if (comparison.contains("spread")) notes.push_back(describe_spread(comparison["spread"]));
  for (const json& result : comparison["results"]) {
    if (result["method"] == "auto") notes.push_back(describe_choice(result));
  }
  return notes;
}

// Called by worker 0.
void show_and_write(const CompareOptions& options, json comparison) {
  if (options.is_timed()) {
    note_time_to_target(comparison);
    comparison["setting"] = describe_setting(comparison);
    std::printf("\n%s\n", comparison["setting"].get<std::string>().c_str());
  }
  std::printf("\n");
  print_table(comparison["results"], columns_of(comparison, options.is_timed()));
  comparison["notes"] = notes_on(comparison);
  for (const json& note : comparison["notes"]) {
    std::printf("\n%s\n", note.get<std::string>().c_str());
  }
  std::string file = options.world.json_file;
  if (!options.report.empty() && file.empty()) {
    std::filesystem::create_directories(options.report);
    file = options.report + "/results.json";
  }
  write_file(file, comparison.dump(2) + "\n");
  if (!options.report.empty()) {
    std::printf("\nReport: %s\n", write_report(file, options.report).c_str());
  }
}

// One worker's part in a comparison.
class Comparison {
 public:
  Comparison(const CompareOptions& options, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
             const data::Dataset& dataset, const TrainingWorld::MakeModel& make_model)
      : options_(options),
        common_(options.world.settings),
        group_(group),
        dataset_(dataset),
        make_model_(make_model) {}

  json run(const std::vector<std::string>& names) const {
    json comparison = {{"results", json::array()}};
    if (options_.is_timed()) {
      comparison["compute_seconds_per_step"] =
          trainer::compute_seconds(common_, dataset_, make_model_(common_.seed), group_);
    }
    for (const std::string& name : names) {
      trainer::Settings settings = common_;
      if (!settings.checkpoint.empty()) settings.checkpoint += "/" + name;
      json result = train(name, name, settings);
      result["name"] = name;
      result["colour"] = colour_of(result["method"]);
      comparison["results"].push_back(std::move(result));
    }
    if (options_.further_seeds > 0) {
      comparison["spread"] = spread(names[0], accuracy_of(comparison["results"][0]));
    }
    return comparison;
  }

 private:
  json train(const std::string& name, const std::string& title,
             const trainer::Settings& settings) const {
    return trainer::train(settings, trainer::parse_method(name), title, dataset_,
                          make_model_(settings.seed), group_);
  }

  // What the accuracies of other seeds are.
  json spread(const std::string& name, double accuracy) const {
    json found = {{"name", name}, {"seeds", {common_.seed}}, {"test_accuracy", {accuracy}}};
    for (int i = 1; i <= options_.further_seeds; ++i) {
      trainer::Settings settings = common_;
      settings.checkpoint.clear();
      settings.seed += static_cast<uint64_t>(i);
      const std::string title = name + ", seed " + std::to_string(settings.seed);
      found["seeds"].push_back(settings.seed);
      found["test_accuracy"].push_back(accuracy_of(train(name, title, settings)));
    }
    return found;
  }

  const CompareOptions& options_;
  const trainer::Settings& common_;
  const c10::intrusive_ptr<c10d::ProcessGroup>& group_;
  const data::Dataset& dataset_;
  const TrainingWorld::MakeModel& make_model_;
};

void compare(const CompareOptions& options) {
  const std::vector<std::string> names = trainer::split_methods(options.methods);
  for (const std::string& name : names) trainer::parse_method(name);  // mistakes are named at once
  options.world.run([&](const auto& group, const data::Dataset& dataset, const auto& make_model) {
    const json comparison = Comparison(options, group, dataset, make_model).run(names);
    if (group->getRank() == 0) show_and_write(options, comparison);
  });
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "Trains a model with several methods, one after the other, and prints one table. All begin\n"
      "with the same weights and have the same samples and settings. Where a network is slow, "
      "give\n"
      "each the same time instead of the same number of steps:\n\n"
      "  gradwire compare --methods all --workers 4 --link 100mbit --seconds 15 --report report");
  command->add_option("--methods", options->methods, "all, or NAME[:key=value,...],NAME,...")
      ->capture_default_str();
  options->world.add_options(*command);
  command
      ->add_option("--spread", options->further_seeds,
                   "also train the first method with so many further seeds, and say how far its "
                   "accuracies are apart")
      ->check(CLI::Range(0, 100).description(""));
  command->add_option("--report", options->report,
                      "write a page with pictures into this folder (needs Python with matplotlib)");
  command->callback([options] { compare(*options); });
}

}  // namespace gradwire
