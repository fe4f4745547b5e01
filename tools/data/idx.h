#pragma once

#include <string>

#include "data/dataset.h"

namespace gradwire::data {

// The four files of MNIST and of what imitates it, each plain or with .gz at its end (the plain one
// is taken where both are there): images of 28 x 28 pixels and labels from 0 to 9.
Dataset load_idx(const std::string& folder);

}  // namespace gradwire::data
