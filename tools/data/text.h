#pragma once

#include <string>

#include "data/dataset.h"

namespace gradwire::data {

// Reads a file of at least 10 bytes, at least two of them different. The vocabulary is the sorted
// set of its bytes. The last tenth of the text, rounded down, is the test part.
Dataset load_text(const std::string& file);

}  // namespace gradwire::data
