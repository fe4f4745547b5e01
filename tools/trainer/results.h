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
  EpochFigures end_epoch(int64_t epoch, double train_loss, const Evaluation& test,
                         const Stats& counted);

  double last_loss() const { return last_loss_; }
  double epoch_loss() const;  // the mean over the steps of this epoch so far

  nlohmann::json saved(const Stats& stats) const;
  void restore(const nlohmann::json& saved);
  nlohmann::json finished(const Stats& counted) const;

 private:
  void note_seconds(const StepFigures& step);
  // Adds the counts from before the training was resumed.
  Stats in_all(Stats stats) const;

  nlohmann::json head_;  // method, options, workers
  nlohmann::json epochs_ = nlohmann::json::array();
  nlohmann::json early_;
  std::vector<double> step_seconds_;
  // These are of the current epoch.
  double loss_sum_ = 0;
  int64_t steps_ = 0;
  StepFigures part_seconds_;
  double last_loss_ = 0;
  Stats before_;   // counts at the end of the last epoch
  Stats earlier_;  // counts from before a resume, after which the method counts from 0
};

}  // namespace gradwire::trainer
