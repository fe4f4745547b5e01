#pragma once

#include <string>

#include "data/dataset.h"

namespace gradwire::data {

// Reads four files in the format of MNIST: images of 28 x 28 pixels and labels from 0 to 9. Each
// file may be packed, with .gz at the end of its name; if both exist, the plain one is read.
Dataset load_idx(const std::string& folder);

}  // namespace gradwire::data
