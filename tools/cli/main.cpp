// The command `gradwire`. Each subcommand has a source file of its own.

#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "cli/bench.h"
#include "cli/lab.h"
#include "cli/plan.h"
#include "cli/probe.h"
#include "cli/train.h"
#include "methods/registry.h"

namespace {

// CLI11 would only say that a subcommand is required.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || *argv[1] == '-') return;
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return;
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  throw std::invalid_argument("there is no command \"" + std::string(argv[1]) +
                              "\"; there are: " + names);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Gradient compression for data-parallel deep learning");
  app.require_subcommand(1);
  app.set_version_flag("--version", GRADWIRE_VERSION);
  gradwire::add_train(app);
  gradwire::add_compare(app);
  gradwire::add_bench(app);
  gradwire::add_probe(app);
  gradwire::add_plan(app, gradwire::method_models());
  gradwire::add_lab(app);
  try {
    require_known_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "gradwire: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
