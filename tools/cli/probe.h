#pragma once

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire probe`: latency and bandwidth between the workers, from real collectives.
void add_probe(CLI::App& app);

}  // namespace gradwire
