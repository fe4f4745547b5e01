#pragma once

namespace CLI {
class App;
}

namespace gradwire {

// `gradwire lab`: runs a program on several emulated hosts, joined by links of a given rate.
void add_lab(CLI::App& app);

}  // namespace gradwire
