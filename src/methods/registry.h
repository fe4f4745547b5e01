#pragma once

#include <memory>
#include <string>
#include <vector>

#include "methods/method.h"

namespace gradwire {

struct MethodEntry {
  std::string name;
  std::string summary;
  std::vector<OptionSpec> options;
  // Options that belong to a parameter rather than to what travels: parameters that differ only in
  // these share one exchange.
  std::vector<std::string> parameter_options;
  std::unique_ptr<Method> (*create)(const OptionMap& options);
};

// Every method, explicitly: adding one means adding its line in registry.cpp.
const std::vector<MethodEntry>& registry();

// Throws std::invalid_argument, naming the valid methods.
const MethodEntry& find_method(const std::string& name);

MethodEntry allreduce_method();
MethodEntry acpsgd_method();
MethodEntry adacomp_method();
MethodEntry topk_method();

}  // namespace gradwire
