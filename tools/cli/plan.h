#pragma once

#include "planner/method.h"

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire plan`: how long a training iteration would take with each method, over numbers of
// workers and bandwidths, before anything is run on them. The simulation is in src/planner.
void add_plan(CLI::App& app, const planner::MethodModels& models);

}  // namespace gradwire
