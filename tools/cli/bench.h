#pragma once

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire bench`: how fast each method encodes and decodes, beside the machine's own limits
// measured in the same run. Every result is verified.
void add_bench(CLI::App& app);

}  // namespace gradwire
