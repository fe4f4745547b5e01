#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <string>

#include "data/dataset.h"
#include "trainer/models.h"
#include "trainer/settings.h"

namespace CLI {
class App;
}

namespace gradwire {

// What `train` and `compare` have in common: the options, and who the workers are.
struct TrainingWorld {
  trainer::Settings settings;
  int workers = 2;
  int learners = 0;  // threads of this process instead of workers
  int threads = 1;
  std::string link;  // the rate of emulated links between the workers
  std::string json_file;

  void add_options(CLI::App& command);

  // What one worker does: with its group, and a function that makes the model, alike in all.
  using MakeModel = std::function<std::shared_ptr<trainer::Model>()>;
  using Body = std::function<void(const c10::intrusive_ptr<c10d::ProcessGroup>&,
                                  const data::Dataset&, const MakeModel&)>;
  // In a world that a launcher has made: as its worker. Otherwise in threads, or in local workers
  // that run this command again. Throws CLI::RuntimeError with the exit status of failed workers.
  void run(const Body& body) const;

 private:
  void run_in_lab() const;
};

}  // namespace gradwire
