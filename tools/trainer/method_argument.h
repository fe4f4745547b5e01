#pragma once

#include <string>
#include <vector>

#include "gradwire/options.h"

namespace gradwire::trainer {

// Reads NAME[:key=value,...]. The registry knows the types of a method's options. Throws
// std::invalid_argument that names the mistake and the valid names.
Request parse_method(const std::string& text);

// Splits a list of these, such as "a,b:key=value,key=value,c". "all" stands for every method.
std::vector<std::string> split_methods(const std::string& text);

}  // namespace gradwire::trainer
