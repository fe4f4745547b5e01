#pragma once

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire train`: trains a model with one method. `gradwire compare`: with several, one after the
// other under equal conditions. What they do is in tools/trainer.
void add_train(CLI::App& app);
void add_compare(CLI::App& app);

}  // namespace gradwire
