#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gradwire/options.h"

namespace gradwire {

// One option of a method: its name, default, and the values it takes.
struct OptionSpec {
  std::string name;
  OptionValue default_value;
  std::string rule;  // in words, for help and error messages: "an integer >= 1"
  std::function<bool(const OptionValue&)> accepts;
};

OptionSpec boolean_option(std::string name, bool default_value);
OptionSpec integer_option(std::string name, int64_t default_value, int64_t least);
// A number in [least, most], or (least, most] where `open_below`.
OptionSpec number_option(std::string name, double default_value, double least, double most,
                         bool open_below = false);
OptionSpec choice_option(std::string name, std::vector<std::string> choices,
                         std::string default_value);
// Some of them, joined by "+"; by default all.
OptionSpec subset_option(std::string name, std::vector<std::string> choices);
std::vector<std::string> subset_of(const OptionValue& value);

// The given options checked and completed with the defaults. Throws std::invalid_argument, naming
// the valid options or values, for one that is unknown or out of range.
OptionMap complete_options(const std::string& method, const std::vector<OptionSpec>& specs,
                           const OptionMap& given);

std::string to_string(const OptionValue& value);
// Reads "name=value name=value", with values as to_string writes them.
OptionMap parse_options(const std::string& text);

}  // namespace gradwire
