#include "methods/registry.h"

#include <algorithm>
#include <stdexcept>

#include "methods/momentum.h"

namespace gradwire {
namespace {

constexpr const char* kColourWithoutModel = "#8c8c8c";

// Gives the models what the registry knows, so that no default is written twice.
void complete_models(MethodEntry& entry, const std::vector<std::string>& candidates) {
  for (planner::MethodModel& model : entry.models) {
    model.is_candidate = std::ranges::find(candidates, model.name) != candidates.end();
    model.recipe = &recipe;
    const auto variant = std::ranges::find(entry.variants, model.name, &Variant::name);
    if (variant == entry.variants.end()) {
      throw std::logic_error("the model " + model.name + " has no variant of its name");
    }
    OptionMap options = complete_options(entry, variant->options);
    options.merge(entry.facts(options).model_options);
    for (planner::ModelOption& option : model.options) {
      const auto own = options.find(option.name);
      if (own != options.end()) option.default_value = own->second;
    }
  }
}

}  // namespace

// Every method, in the order of listings: METHOD(x) stands for x_method(), the end of its file.
// `auto`, which chooses among them, comes last.
#define GRADWIRE_METHODS \
  METHOD(allreduce)      \
  METHOD(half)           \
  METHOD(quant)          \
  METHOD(sign)           \
  METHOD(topk)           \
  METHOD(powersgd)       \
  METHOD(acpsgd)         \
  METHOD(adacomp)

#define METHOD(name) MethodEntry name##_method();
GRADWIRE_METHODS
#undef METHOD
MethodEntry auto_method(const std::vector<MethodEntry>& candidates);

const std::vector<MethodEntry>& registry() {
#define METHOD(name) name##_method(),
  static const std::vector<MethodEntry> entries = [] {
    std::vector<MethodEntry> all = {GRADWIRE_METHODS};
    all.push_back(auto_method(all));
    const auto candidates =
        std::ranges::find(all.back().options, "candidates", &OptionSpec::name)->default_value;
    for (MethodEntry& entry : all) {
      entry.variants.insert(entry.variants.begin(), {entry.name, {}});
      complete_models(entry, subset_of(candidates));
    }
    return all;
  }();
#undef METHOD
  return entries;
}

const planner::MethodModels& method_models() {
  static const planner::MethodModels sorted = [] {
    planner::MethodModels models;
    for (const MethodEntry& entry : registry()) {
      for (const planner::MethodModel& model : entry.models) models.push_back(&model);
    }
    std::ranges::stable_sort(models, {}, &planner::MethodModel::loss);
    return models;
  }();
  return sorted;
}

const MethodEntry& find_method(const std::string& name) {
  const auto entry = std::ranges::find(registry(), name, &MethodEntry::name);
  if (entry != registry().end()) return *entry;
  std::string names;
  for (const MethodEntry& known : registry()) names += (names.empty() ? "" : ", ") + known.name;
  throw std::invalid_argument("there is no method \"" + name + "\"; the methods are: " + names);
}

FoundVariant find_variant(const std::string& name) {
  for (const MethodEntry& entry : registry()) {
    const auto variant = std::ranges::find(entry.variants, name, &Variant::name);
    if (variant != entry.variants.end()) return {entry, *variant};
  }
  throw std::invalid_argument("there is no variant \"" + name + "\" of a method");
}

OptionMap complete_options(const MethodEntry& method, const OptionMap& given) {
  OptionMap complete = complete_options(method.name, method.options, given);
  if (method.complete != nullptr) method.complete(given, complete);
  return complete;
}

Facts facts_of(const MethodEntry& method, const OptionMap& given) {
  return method.facts(complete_options(method, given));
}

planner::MethodChoice choice_of(const MethodEntry& method, const OptionMap& given) {
  OptionMap options = complete_options(method, given);
  Facts facts = method.facts(options);
  options.merge(facts.model_options);
  planner::MethodChoice choice{&method.models.at(facts.model)};
  for (const planner::ModelOption& option : choice.model->options) {
    const auto own = options.find(option.name);
    if (own != options.end()) choice.options.insert(*own);
  }
  return choice;
}

std::string recipe(const planner::MethodChoice& choice) {
  const auto& [method, variant] = find_variant(choice.model->name);
  OptionMap options = variant.options;
  for (const planner::ModelOption& option : choice.model->options) {
    const auto given = choice.options.find(option.name);
    if (given == choice.options.end() || given->second == option.default_value) continue;
    const bool is_own =
        std::ranges::find(method.options, option.name, &OptionSpec::name) != method.options.end();
    if (is_own) options.insert(*given);
  }
  std::string line = "gradwire.attach(ddp, \"" + method.name + '"';
  for (const auto& [name, value] : options) line += ", " + name + "=" + to_string(value);
  return line + ")";
}

Facts delayed_facts(const OptionMap& options) {
  return {.loss_class = LossClass::delayed,
          .keeps_residual = std::get<bool>(options.at("error_feedback")),
          .momentum = momentum_of(options)};
}

std::vector<MethodDescription> methods() {
  std::vector<MethodDescription> descriptions;
  for (const MethodEntry& entry : registry()) {
    MethodDescription& description = descriptions.emplace_back();
    description.name = entry.name;
    description.summary = entry.summary;
    description.colour = entry.models.empty() ? kColourWithoutModel : entry.models.front().colour;
    for (const OptionSpec& spec : entry.options) {
      description.options.push_back({spec.name, spec.default_value, spec.rule});
    }
    for (const Variant& variant : entry.variants) {
      const Facts facts = facts_of(entry, variant.options);
      description.variants.push_back(
          {variant.name, variant.options, facts.loss_class, facts.keeps_residual});
    }
  }
  return descriptions;
}

}  // namespace gradwire
