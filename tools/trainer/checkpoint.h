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

// The state of a training, besides the model and the optimizer.
struct Checkpoint {
  int64_t step = 0;         // number of steps done
  nlohmann::json progress;  // what the trainer has measured so far
  State gradwire;
};

// A folder with one file per worker and saved step. The last two files of each worker are kept: a
// worker may die before another has saved the same step.
class CheckpointFolder {
 public:
  // A training can only be resumed with the same `settings`.
  CheckpointFolder(std::filesystem::path folder, int worker, nlohmann::json settings);

  // Throws std::invalid_argument if any worker has saved a checkpoint here.
  void require_empty() const;

  // Whatever happens, the file is complete or does not exist.
  void save(const Checkpoint& checkpoint, const Model& model,
            const torch::optim::Optimizer& optimizer) const;
  // The last step that all workers have saved, if any. All workers must call it. Throws
  // std::invalid_argument if the settings differ.
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
