#pragma once

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire probe`: measures latency and bandwidth between the workers with real collectives.
void add_probe(CLI::App& app);

}  // namespace gradwire
