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
  // What holds between options, where anything does: throws std::invalid_argument. Sees the options
  // as they were given, valid each for itself.
  void (*check)(const OptionMap& given) = nullptr;
};

// Every method, explicitly: adding one means adding its line in registry.cpp.
const std::vector<MethodEntry>& registry();

// Throws std::invalid_argument, naming the valid methods.
const MethodEntry& find_method(const std::string& name);

// The given options checked, each for itself and together, and completed with the defaults. Throws
// std::invalid_argument.
OptionMap complete_options(const MethodEntry& method, const OptionMap& given);

// The one that is no method but a choice of methods.
inline constexpr const char* kAuto = "auto";

}  // namespace gradwire
