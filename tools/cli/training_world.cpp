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

// Removes `--link RATE` or `--link=RATE`.
std::vector<std::string> without_link(std::vector<std::string> arguments) {
  for (size_t i = 0; i < arguments.size();) {
    const auto at = arguments.begin() + static_cast<int64_t>(i);
    if (arguments[i] == "--link") {
      arguments.erase(at, at + 2);
    } else if (arguments[i].starts_with("--link=")) {
      arguments.erase(at);
    } else {
      ++i;
    }
  }
  return arguments;
}

CLI::Range count() { return {1, 1'000'000}; }

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
          range.str()};
}

void add_length(CLI::App& command, trainer::Settings& settings) {
  CLI::Option* epochs =
      command
          .add_option("--epochs", settings.epochs, "number of passes through the training samples")
          ->check(count());
  command
      .add_option("--steps", settings.steps,
                  "number of optimizer steps, in place of --epochs; the last epoch is cut")
      ->check(count())
      ->excludes(epochs);
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
  command
      .add_option("--warmup", settings.warmup_epochs,
                  "number of epochs, such as 0.1, in which the learning rate rises linearly")
      ->check(number(0, 1000));
  CLI::Option* decay_at =
      command
          .add_option("--decay-at", settings.decay_at,
                      "epochs after which the learning rate is multiplied by --decay, e.g. 30,60")
          ->delimiter(',')
          ->check(count());
  command.add_option("--decay", settings.decay, "factor of the learning rate, see --decay-at")
      ->check(number(0, 1));
  command
      .add_flag("--cosine", settings.cosine,
                "after the warm-up the learning rate falls as a cosine to 0 at the end")
      ->excludes(decay_at);
}

}  // namespace

void TrainingWorld::add_options(CLI::App& command) {
  const auto add_count = [&](const char* name, auto& target, const char* help) {
    return command.add_option(name, target, help)->check(count());
  };
  command.option_defaults()->always_capture_default();
  command.add_option("--data", settings.data,
                     "fashion-mnist, idx:DIR, cifar10:DIR, text:FILE or wav:DIR");
  std::string models;
  for (const std::string& name : trainer::model_names())
    models += (models.empty() ? "" : ", ") + name;
  command.add_option("--model", settings.model, models);
  add_count("--workers", workers,
            "number of local worker processes; ignored in a launcher's world");
  command
      .add_option("--learners", learners,
                  "number of learners, which are threads of one process, instead of workers")
      ->check(CLI::Range(0, 1024));
  add_count("--batch", settings.batch, "samples per worker and step");
  add_length(command, settings);
  add_optimizer(command, settings);
  add_schedule(command, settings);
  command.add_flag("--augment", settings.augment,
                   "shift training images by up to 4 pixels and mirror half of them, at random");
  command
      .add_option("--seed", settings.seed,
                  "seed of the first weights, of the shuffling and of --augment; at least 0")
      ->check([](const std::string& text) {
        // CLI11 would take -1 for the largest number.
        return text.starts_with('-') ? "Value " + text + " is negative" : std::string();
      });
  add_count("--train-limit", settings.train_limit, "use at most this many training samples");
  add_count("--test-limit", settings.test_limit, "use at most this many test samples");
  add_count("--threads", threads, "number of threads that a worker computes with");
  command.add_option("--checkpoint", settings.checkpoint,
                     "save to this folder after every epoch and on Ctrl-C");
  command.add_flag("--resume", settings.resume, "go on from the last checkpoint in that folder");
  command.add_option("--link", link,
                     "emulate links of this rate between the workers (see `gradwire lab`)");
  command.add_option("--json", json_file, "write the results to this file");
}

void TrainingWorld::run_in_lab() const {
  lab::Settings emulated;
  emulated.hosts = workers;
  emulated.threads = threads;
  emulated.link = parse_link(link);
  emulated.command = without_link(own_command());
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
  const auto make_model = [&] {
    const std::lock_guard lock(mutex);
    torch::manual_seed(settings.seed);
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
