#pragma once

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire bench`: how fast each method encodes and decodes, beside the machine's own limits
// measured in the same run. Results are verified where a method keeps a residual; half and sign's
// vote keep none, and their error column says nothing.
void add_bench(CLI::App& app);

}  // namespace gradwire
