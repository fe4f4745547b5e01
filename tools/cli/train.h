#pragma once

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire train` trains a model with one method. `gradwire compare` does so with several methods,
// one after the other under equal conditions. The training itself is in tools/trainer.
void add_train(CLI::App& app);
void add_compare(CLI::App& app);

}  // namespace gradwire
