// What `auto` is to the registry: a name and options. It begins as plain all-reduce; src/auto
// measures a few steps of that, tries other methods and changes over to the best.

#include <map>
#include <stdexcept>

#include "methods/registry.h"

namespace gradwire {
namespace {

// The candidates by their models' loss. Votes are none: their results are no means, so they need a
// learning rate of their own.
std::multimap<double, std::string> candidates_among(const std::vector<MethodEntry>& methods) {
  std::multimap<double, std::string> candidates;
  for (const MethodEntry& method : methods) {
    for (const planner::MethodModel& model : method.models) {
      OptionMap options;
      for (const Variant& variant : method.variants) {
        if (variant.name == model.name) options = variant.options;
      }
      const bool averages = method.create(complete_options(method, options))->averages();
      if (averages && !model.is_plain()) candidates.emplace(model.loss, model.name);
    }
  }
  return candidates;
}

bool allows_delayed(const OptionMap& options) { return std::get<bool>(options.at("delayed")); }

// Whoever names a method that delays has to allow that, too.
void complete_candidates(const OptionMap& given, OptionMap& options) {
  if (allows_delayed(options)) return;
  std::string undelayed;
  for (const std::string& name : subset_of(options.at("candidates"))) {
    const FoundVariant found = find_variant(name);
    const bool delays =
        facts_of(found.method, found.variant.options).loss_class == LossClass::delayed;
    if (delays && given.contains("candidates")) {
      throw std::invalid_argument("[auto] candidate " + name +
                                  " sends a part of the gradient steps later, which costs accuracy "
                                  "in short trainings: add delayed=True, or leave it out");
    }
    if (!delays) undelayed += (undelayed.empty() ? "" : "+") + name;
  }
  options["candidates"] = undelayed;
}

}  // namespace

// Its candidates go from the least lossy to the most.
MethodEntry auto_method(const std::vector<MethodEntry>& others) {
  std::vector<std::string> candidates;
  for (const auto& [loss, name] : candidates_among(others)) candidates.push_back(name);
  return {
      .name = kAuto,
      .summary = "chooses among the others by measuring; compresses only what makes steps shorter",
      .options = {boolean_option("delayed", false), integer_option("rank", 0, 0),
                  subset_option("candidates", candidates)},
      .parameter_options = {},
      .create = [](const OptionMap&) { return find_method("allreduce").create({}); },
      .complete = complete_candidates,
      .facts =
          [](const OptionMap& options) {
            return Facts{
                .loss_class = allows_delayed(options) ? LossClass::delayed : LossClass::rounded,
                .keeps_residual = true};
          },
  };
}

}  // namespace gradwire
