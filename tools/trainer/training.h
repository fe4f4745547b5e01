#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/dataset.h"
#include "gradwire/options.h"
#include "trainer/models.h"
#include "trainer/settings.h"

namespace gradwire::trainer {

// Somebody pressed Ctrl-C; a checkpoint was left if there is a folder for it.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

// Trains the model as one of the group's workers and returns the results as `gradwire train --json`
// has them. `title` is shown with the progress, by worker 0. Collective.
nlohmann::json train(const Settings& settings, const Request& method, const std::string& title,
                     const data::Dataset& dataset, const std::shared_ptr<Model>& model,
                     const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace gradwire::trainer
