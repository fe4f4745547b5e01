#pragma once

#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "gradwire/state.h"
#include "trainer/models.h"

namespace gradwire::trainer {

// Where a training is, and what it has measured so far.
struct Checkpoint {
  int64_t step = 0;         // steps done
  nlohmann::json progress;  // the trainer's own
  State gradwire;
};

// One file per worker and saved step in one folder; the last two of each worker are kept, because a
// worker may die before another has saved the same step.
class CheckpointFolder {
 public:
  // `settings`: what a training must have in common with the one that it goes on with.
  CheckpointFolder(std::filesystem::path folder, int worker, nlohmann::json settings);

  // Of no worker. Throws std::invalid_argument.
  void require_empty() const;

  // Leaves the file whole or not there, whatever happens.
  void save(const Checkpoint& checkpoint, const Model& model,
            const torch::optim::Optimizer& optimizer) const;
  // The last step that all workers have, or nothing. Collective. Throws std::invalid_argument where
  // the settings were others.
  std::optional<int64_t> last_common_step(c10d::ProcessGroup& group) const;
  Checkpoint load(int64_t step, Model& model, torch::optim::Optimizer& optimizer) const;

 private:
  std::filesystem::path file(int64_t step) const;
  std::vector<int64_t> saved_steps() const;
  void require_same_settings(int64_t step) const;

  std::filesystem::path folder_;
  int worker_;
  nlohmann::json settings_;
};

}  // namespace gradwire::trainer
