#include "cli/train.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/output_file.h"
#include "cli/training_world.h"
#include "trainer/method_argument.h"
#include "trainer/training.h"

namespace gradwire {
namespace {

using nlohmann::json;

struct TrainOptions {
  TrainingWorld world;
  std::string method = "acpsgd";
};

void train(const TrainOptions& options) {
  const Request method = trainer::parse_method(options.method);
  const TrainingWorld& world = options.world;
  world.run([&](const auto& group, const data::Dataset& dataset, const auto& make_model) {
    const json result = trainer::train(world.settings, method, options.method, dataset,
                                       make_model(world.settings.seed), group);
    if (group->getRank() == 0) write_file(world.json_file, result.dump(2) + "\n");
  });
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand(
      "train",
      "Trains a model with compressed gradients. Starts local workers, or joins the world that\n"
      "torchrun, mpirun or srun has made.\n\n"
      "  gradwire train --data fashion-mnist --model cnn --method acpsgd:rank=32 --workers 4");
  command->add_option("--method", options->method, "NAME[:key=value,...]")->capture_default_str();
  options->world.add_options(*command);
  command->callback([options] { train(*options); });
}

}  // namespace gradwire
