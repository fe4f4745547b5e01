// The command `gradwire`. Each subcommand is a source of its own.

#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>

#include "cli/bench.h"
#include "cli/lab.h"
#include "cli/plan.h"
#include "cli/probe.h"
#include "cli/train.h"

int main(int argc, char** argv) {
  CLI::App app("Gradient compression for data-parallel deep learning");
  app.require_subcommand(1);
  app.set_version_flag("--version", GRADWIRE_VERSION);
  gradwire::add_train(app);
  gradwire::add_compare(app);
  gradwire::add_bench(app);
  gradwire::add_probe(app);
  gradwire::add_plan(app);
  gradwire::add_lab(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "gradwire: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
