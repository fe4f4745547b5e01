// What `auto` is to the registry: a name and options. It begins as plain all-reduce; src/ddp
// measures a few steps of that, decides which of the other methods to use where, and changes over.

#include <map>

#include "methods/registry.h"

namespace gradwire {

// Its candidates go from the least lossy to the most.
MethodEntry auto_method(const std::vector<MethodEntry>& others) {
  std::multimap<double, std::string> by_loss;
  for (const MethodEntry& other : others) {
    if (other.compresses()) by_loss.emplace(other.models.front().loss, other.name);
  }
  std::vector<std::string> candidates;
  for (const auto& [loss, name] : by_loss) candidates.push_back(name);
  return {
      .name = kAuto,
      .summary = "chooses among the others by measuring; compresses only what makes steps shorter",
      .options = {integer_option("rank", 4, 1), subset_option("candidates", candidates)},
      .parameter_options = {},
      .create = [](const OptionMap&) { return find_method("allreduce").create({}); },
      .facts =
          [](const OptionMap&) {
            return Facts{LossClass::delayed, true};
          },
  };
}

}  // namespace gradwire
