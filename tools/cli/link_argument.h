#pragma once

#include <string>

#include "lab/link.h"

namespace gradwire {

// The link that the user describes: a rate such as 100mbit or "unlimited", a delay such as 5ms, a
// loss such as 0.1%. An empty delay or loss means none. Throws std::invalid_argument.
lab::Link parse_link(const std::string& rate, const std::string& delay = "",
                     const std::string& loss = "");

}  // namespace gradwire
