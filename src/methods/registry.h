#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gradwire/methods.h"
#include "methods/method.h"
#include "planner/method.h"

namespace gradwire {

// What holds for a method with certain options.
struct Facts {
  LossClass loss_class;
  bool keeps_residual = false;
  // How far, relative to the gradients around it, a result may be from what gradients and residuals
  // make of it: rounding that no residual knows of.
  double rounding = 0;
  size_t model = 0;              // of MethodEntry::models
  OptionMap model_options = {};  // of the model, beyond those that it shares with the method
  double momentum = 0;           // that results are corrected for; see momentum.h
};

// Options of a method that are worth testing and measuring on their own.
struct Variant {
  std::string name;  // "topk-bf16"; one with a model of its own has the model's name
  OptionMap options;
};

// Everything that others know of a method: its line in registry.cpp makes it known to all of them.
struct MethodEntry {
  std::string name;
  std::string summary;
  std::vector<OptionSpec> options;
  // Options that belong to a parameter rather than to what travels: parameters that differ only in
  // these share one exchange.
  std::vector<std::string> parameter_options;
  std::unique_ptr<Method> (*create)(const OptionMap& options);
  // What holds between options, where anything does. Sees the options as they were given, valid
  // each for itself, and completed with the defaults; changes a default that depends on other
  // options, or throws std::invalid_argument.
  void (*complete)(const OptionMap& given, OptionMap& options) = nullptr;
  // With all its options, checked and completed.
  Facts (*facts)(const OptionMap& options);
  std::vector<Variant> variants = {};  // registry() puts the method as it is by default first
  // What the planner knows of it, the default first; nothing where there is nothing to plan.
  std::vector<planner::MethodModel> models = {};

  bool compresses() const { return !models.empty() && !models[0].is_plain(); }
};

// Every method, explicitly: adding one means adding its line in registry.cpp.
const std::vector<MethodEntry>& registry();

// The models of all methods, from the least lossy to the most.
const planner::MethodModels& method_models();

// Throws std::invalid_argument, naming the valid methods.
const MethodEntry& find_method(const std::string& name);

// A variant by its name, and the method that it belongs to. Throws as above.
struct FoundVariant {
  const MethodEntry& method;
  const Variant& variant;
};
FoundVariant find_variant(const std::string& name);

// The given options checked, each for itself and together, and completed with the defaults. Throws
// std::invalid_argument.
OptionMap complete_options(const MethodEntry& method, const OptionMap& given);

// Its facts with these options, given as above.
Facts facts_of(const MethodEntry& method, const OptionMap& given = {});

// The planner's model for these options, with those of them that it knows. The method has a model.
planner::MethodChoice choice_of(const MethodEntry& method, const OptionMap& given);

// The line of Python that trains with a model's method: gradwire.attach(ddp, "quant", bits=4)
std::string recipe(const planner::MethodChoice& choice);

// Facts of methods that keep back what they do not send, with the option `error_feedback`.
Facts delayed_facts(const OptionMap& options);

// The one that is no method but a choice of methods.
inline constexpr const char* kAuto = "auto";

}  // namespace gradwire
