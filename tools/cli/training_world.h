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

// What `train` and `compare` have in common: the options and the choice of workers.
struct TrainingWorld {
  trainer::Settings settings;
  int workers = 2;
  int learners = 0;  // if above 0, threads of this process take the place of workers
  int threads = 1;
  std::string link;  // rate of emulated links between the workers; empty for none
  std::string json_file;

  void add_options(CLI::App& command);

  // What one worker does. It gets its group, the data and a function that makes the model from a
  // seed, with the same weights on all workers.
  using MakeModel = std::function<std::shared_ptr<trainer::Model>(uint64_t seed)>;
  using Body = std::function<void(const c10::intrusive_ptr<c10d::ProcessGroup>&,
                                  const data::Dataset&, const MakeModel&)>;
  // Runs `body` as a worker of the world that a launcher has made. Without a launcher, runs it in
  // threads, or starts local workers that run this command again. If workers fail, throws
  // CLI::RuntimeError with their exit status.
  void run(const Body& body) const;

 private:
  void run_in_lab() const;
};

}  // namespace gradwire
