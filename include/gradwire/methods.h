#pragma once

#include <string>
#include <vector>

#include "gradwire/export.h"
#include "gradwire/options.h"
#include "gradwire/stats.h"

namespace gradwire {

struct OptionDescription {
  std::string name;
  OptionValue default_value;
  std::string rule;  // the values it takes, in words
};

// A method with options that are worth trying on their own.
struct VariantDescription {
  std::string name;
  OptionMap options;  // those that are not the defaults
  LossClass loss_class;
  bool keeps_residual;
};

struct MethodDescription {
  std::string name;
  std::string summary;
  std::string colour;  // in plots: "#0072b2"
  std::vector<OptionDescription> options;
  std::vector<VariantDescription> variants;  // the first is the method as it is by default
};

// Every method there is, in the order of the documentation.
GRADWIRE_EXPORT std::vector<MethodDescription> methods();

}  // namespace gradwire
