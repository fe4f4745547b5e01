#include "cli/training_world.h"

#include <CLI/CLI.hpp>
#include <mutex>
#include <sstream>

#include "cli/link_argument.h"
#include "cli/local_workers.h"
#include "cli/output_file.h"
#include "gradwire/process_group.h"
#include "lab/lab.h"
#include "trainer/learners.h"
#include "trainer/stop.h"
#include "trainer/training.h"

namespace gradwire {
namespace {

constexpr int kInterruptedStatus = 130;

// The workers do not make the links but are told of them.
constexpr const char* kLink = "--link";
constexpr const char* kEmulatedLink = "--emulated-link";

std::vector<std::string> told_of_link(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    const bool is_link = argument == kLink || argument.starts_with(kLink + std::string("="));
    if (is_link) argument.replace(0, std::string(kLink).size(), kEmulatedLink);
  }
  return arguments;
}

// The ranges are in the messages; in --help they would only be in the way.
CLI::Validator count() { return CLI::Range(1, 1'000'000).description(""); }

// In --help, the options that follow.
void begin_group(CLI::App& command, const char* title) { command.option_defaults()->group(title); }

// Refuses NaN too, which CLI::Range lets pass.
CLI::Validator number(double least, double most) {
  std::ostringstream range;
  range << least << " to " << most;
  return {[=, range = range.str()](std::string& text) {
            double value = 0;
            const bool within =
                CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
            return within ? std::string() : "Value " + text + " not in range " + range;
          },
          ""};
}

void add_length(CLI::App& command, trainer::Settings& settings) {
  CLI::Option* epochs =
      command
          .add_option("--epochs", settings.epochs, "number of passes through the training samples")
          ->check(count());
  CLI::Option* steps =
      command
          .add_option("--steps", settings.steps,
                      "number of optimizer steps, in place of --epochs; the last epoch is cut")
          ->default_str("")
          ->check(count())
          ->excludes(epochs);
  command
      .add_option("--seconds", settings.seconds,
                  "training time, in place of --epochs; the dozen tests in it do not count, and "
                  "the learning rate is constant after --warmup")
      ->default_str("")
      ->check(number(0.1, 1e6))
      ->excludes(epochs)
      ->excludes(steps);
}

void add_optimizer(CLI::App& command, trainer::Settings& settings) {
  command.add_option("--optimizer", settings.optimizer, "sgd, adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  command.add_option("--lr", settings.lr, "learning rate")->check(number(0, 1000));
  command.add_option("--momentum", settings.momentum, "momentum of SGD")->check(number(0, 1));
  command
      .add_option("--weight-decay", settings.weight_decay,
                  "decay of matrices, not of vectors; without this 0.1 with adamw, otherwise 0")
      ->check(number(0, 1));
  command
      .add_option("--clip", settings.clip,
                  "scale a gradient with a larger norm down to this norm; 0: never")
      ->check(number(0, 1e6));
}

void add_schedule(CLI::App& command, trainer::Settings& settings) {
  CLI::Option* seconds = command.get_option("--seconds");
  command
      .add_option("--warmup", settings.warmup_epochs,
                  "number of epochs, such as 0.1, in which the learning rate rises linearly")
      ->check(number(0, 1000));
  CLI::Option* decay_at =
      command
          .add_option("--decay-at", settings.decay_at,
                      "epochs after which the learning rate is multiplied by --decay, e.g. 30,60")
          ->delimiter(',')
          ->check(count())
          ->excludes(seconds);
  command.add_option("--decay", settings.decay, "factor of the learning rate, see --decay-at")
      ->check(number(0, 1));
  command
      .add_flag("--cosine", settings.cosine,
                "after the warm-up the learning rate falls as a cosine to 0 at the end")
      ->excludes(decay_at)
      ->excludes(seconds);
}

}  // namespace

void TrainingWorld::add_options(CLI::App& command) {
  const auto add_count = [&](const char* name, auto& target, const char* help) {
    return command.add_option(name, target, help)->check(count());
  };
  command.option_defaults()->always_capture_default();
  begin_group(command, "Data and model");
  command.add_option("--data", settings.data,
                     "fashion-mnist, idx:DIR, cifar10:DIR, text:FILE or wav:DIR");
  std::string models;
  for (const std::string& name : trainer::model_names())
    models += (models.empty() ? "" : ", ") + name;
  command.add_option("--model", settings.model, models);
  add_count("--train-limit", settings.train_limit, "use at most this many training samples")
      ->default_str("");
  add_count("--test-limit", settings.test_limit, "use at most this many test samples")
      ->default_str("");
  command.add_flag("--augment", settings.augment,
                   "shift training images by up to 4 pixels and mirror half of them, at random");
  command
      .add_option("--seed", settings.seed,
                  "seed of the first weights, of the shuffling and of --augment; at least 0")
      ->check([](const std::string& text) {
        // CLI11 would take -1 for the largest number.
        return text.starts_with('-') ? "Value " + text + " is negative" : std::string();
      });
  begin_group(command, "Workers and network");
  add_count("--workers", workers,
            "number of local worker processes; ignored in a launcher's world");
  add_count("--threads", threads, "number of threads that a worker computes with");
  command
      .add_option("--learners", learners,
                  "number of learners, which are threads of one process, instead of workers")
      ->check(CLI::Range(0, 1024).description(""))
      ->default_str("");
  command.add_option(kLink, link,
                     "emulate links of this rate between the workers, e.g. 100mbit, as `gradwire "
                     "lab` does; needs root or user namespaces");
  command.add_option(kEmulatedLink, settings.link)->group("");
  begin_group(command, "Length of the training");
  add_length(command, settings);
  begin_group(command, "Optimizer");
  add_count("--batch", settings.batch, "samples per worker and step");
  add_optimizer(command, settings);
  add_schedule(command, settings);
  begin_group(command, "Results");
  command.add_option("--json", json_file, "write the results to this file");
  command
      .add_option("--checkpoint", settings.checkpoint,
                  "save to this folder after every epoch and on Ctrl-C")
      ->excludes(command.get_option("--seconds"));
  command.add_flag("--resume", settings.resume, "go on from the last checkpoint in that folder");
}

void TrainingWorld::run_in_lab() const {
  lab::Settings emulated;
  emulated.hosts = workers;
  emulated.threads = threads;
  emulated.link = parse_link(link);
  emulated.command = told_of_link(own_command());
  const lab::Result result = lab::run(emulated);
  if (result.status != 0) throw CLI::RuntimeError(result.status);
}

void TrainingWorld::run(const Body& body) const {
  const bool as_threads = learners > 0;
  if (settings.resume && settings.checkpoint.empty()) {
    throw std::invalid_argument("--resume needs --checkpoint DIR");
  }
  if (!link.empty() && as_threads) {
    throw std::invalid_argument(
        "--link needs worker processes; learners are threads of one process");
  }
  if (!as_threads && !was_launched()) {
    // Mistakes in these are reported once, by this process, and not by every worker.
    require_writable(json_file);
    data::load(settings.data);
    if (!link.empty()) return run_in_lab();
    const int status = run_local_workers(workers, threads);
    if (status != 0) throw CLI::RuntimeError(status);
    return;
  }
  const data::Dataset dataset = data::load(settings.data);
  // Learners share the generator of the process, so they take turns.
  std::mutex mutex;
  const auto make_model = [&](uint64_t seed) {
    const std::lock_guard lock(mutex);
    torch::manual_seed(seed);
    return trainer::make_model(settings.model, dataset);
  };
  trainer::catch_signals();
  at::set_num_threads(threads);
  try {
    if (as_threads) {
      require_writable(json_file);
      trainer::run_learners(learners, [&](int /*learner*/, const auto& group) {
        at::set_num_threads(threads);  // OpenMP keeps this number per thread
        body(group, dataset, make_model);
      });
    } else {
      body(init_process_group(), dataset, make_model);
    }
  } catch (const trainer::Interrupted&) {
    std::cerr << "interrupted" << (settings.checkpoint.empty() ? "" : "; go on with --resume")
              << std::endl;
    throw CLI::RuntimeError(kInterruptedStatus);
  }
}

}  // namespace gradwire
