#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "gradwire/options.h"
#include "gradwire/stats.h"
#include "trainer/settings.h"

namespace gradwire::trainer {

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
};

struct StepFigures {
  double loss = 0;
  double load = 0, forward = 0, backward = 0, optimizer = 0;  // seconds

  double seconds() const { return load + forward + backward + optimizer; }
};

struct EpochFigures {
  double train_loss = 0;
  double seconds = 0;  // of all its steps
  double code_ratio = 0;
};

nlohmann::json to_json(const Stats& stats);

// Collects the figures of a training step by step and returns them as JSON. A resumed training goes
// on with the saved ones.
class Results {
 public:
  Results(const Request& method, const Settings& settings, int workers);

  void add_step(const StepFigures& step);
  void note_early(const Stats& stats);
  // Ends an epoch, or another stretch of training that a test follows. `epoch` is the number of
  // passes through the samples so far.
  EpochFigures end_epoch(const nlohmann::json& epoch, double train_loss, const Evaluation& test,
                         const Stats& counted);

  double last_loss() const { return step_losses_.back(); }
  double mean_loss(int64_t first_step, int64_t end) const;
  // This worker's mean loss over every hundredth of the training.
  std::vector<double> losses() const;
  int64_t last_test() const;  // number of steps done at the last test

  nlohmann::json saved(const Stats& stats) const;
  void restore(const nlohmann::json& saved);
  // `losses` are the means of all workers' losses().
  nlohmann::json finished(const Stats& counted, const std::vector<double>& losses) const;

 private:
  void note_seconds(const StepFigures& step);
  nlohmann::json over_time(const std::vector<double>& losses) const;
  // Adds the counts from before the training was resumed.
  Stats in_all(Stats stats) const;

  nlohmann::json head_;  // method, options, workers
  nlohmann::json epochs_ = nlohmann::json::array();
  nlohmann::json early_;
  std::vector<double> step_seconds_;
  std::vector<double> step_losses_;
  StepFigures part_seconds_;  // of the current epoch
  Stats before_;              // counts at the end of the last epoch
  Stats earlier_;             // counts from before a resume, after which the method counts from 0
};

}  // namespace gradwire::trainer
