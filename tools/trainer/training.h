#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/dataset.h"
#include "gradwire/options.h"
#include "trainer/models.h"
#include "trainer/settings.h"

namespace gradwire::trainer {

// The user pressed Ctrl-C. A checkpoint was saved if there is a folder for it.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

// Trains the model as one of the group's workers. All workers must call it. Worker 0 shows `title`
// with the progress. Returns what `gradwire train --json` writes.
nlohmann::json train(const Settings& settings, const Request& method, const std::string& title,
                     const data::Dataset& dataset, const std::shared_ptr<Model>& model,
                     const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// The seconds of a step in which all workers compute and none sends: the median of some. All
// workers must call it; the model changes.
double compute_seconds(const Settings& settings, const data::Dataset& dataset,
                       const std::shared_ptr<Model>& model,
                       const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace gradwire::trainer
