#include "methods/registry.h"

#include <algorithm>
#include <stdexcept>

#include "gradwire/methods.h"

namespace gradwire {

// Every method, in the order of listings: METHOD(x) stands for x_method(), the end of its file.
#define GRADWIRE_METHODS \
  METHOD(allreduce)      \
  METHOD(half)           \
  METHOD(sign)           \
  METHOD(topk)           \
  METHOD(powersgd)       \
  METHOD(acpsgd)         \
  METHOD(adacomp)        \
  METHOD(auto)

#define METHOD(name) MethodEntry name##_method();
GRADWIRE_METHODS
#undef METHOD

const std::vector<MethodEntry>& registry() {
#define METHOD(name) name##_method(),
  static const std::vector<MethodEntry> entries = {GRADWIRE_METHODS};
#undef METHOD
  return entries;
}

const MethodEntry& find_method(const std::string& name) {
  const auto entry = std::ranges::find(registry(), name, &MethodEntry::name);
  if (entry != registry().end()) return *entry;
  std::string names;
  for (const MethodEntry& known : registry()) names += (names.empty() ? "" : ", ") + known.name;
  throw std::invalid_argument("there is no method \"" + name + "\"; the methods are: " + names);
}

OptionMap complete_options(const MethodEntry& method, const OptionMap& given) {
  OptionMap complete = complete_options(method.name, method.options, given);
  if (method.check != nullptr) method.check(given);
  return complete;
}

std::vector<MethodDescription> methods() {
  std::vector<MethodDescription> descriptions;
  for (const MethodEntry& entry : registry()) {
    MethodDescription& description = descriptions.emplace_back();
    description.name = entry.name;
    description.summary = entry.summary;
    for (const OptionSpec& spec : entry.options) {
      description.options.push_back({spec.name, spec.default_value, spec.rule});
    }
  }
  return descriptions;
}

}  // namespace gradwire
