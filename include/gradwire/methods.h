#pragma once

#include <string>
#include <vector>

#include "gradwire/export.h"
#include "gradwire/options.h"

namespace gradwire {

struct OptionDescription {
  std::string name;
  OptionValue default_value;
  std::string rule;  // the values it takes, in words
};

struct MethodDescription {
  std::string name;
  std::string summary;
  std::vector<OptionDescription> options;
};

// Every method there is, in the order of the documentation.
GRADWIRE_EXPORT std::vector<MethodDescription> methods();

}  // namespace gradwire
