#pragma once

#include <string>
#include <vector>

#include "gradwire/options.h"

namespace gradwire::trainer {

// NAME[:key=value,...], with the types that the registry gives to the method's options. Throws
// std::invalid_argument, naming what is wrong and what would be right.
Request parse_method(const std::string& text);

// The items of a list of such, "a,b:key=value,key=value,c", or with "all" every method there is.
std::vector<std::string> split_methods(const std::string& text);

}  // namespace gradwire::trainer
