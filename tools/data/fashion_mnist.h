#pragma once

#include <string>

#include "data/dataset.h"

namespace gradwire::data {

// Debian's package installs it here.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

// If the folder is missing, the DataError names the package to install.
Dataset load_fashion_mnist(const std::string& folder = kFashionMnistFolder);

}  // namespace gradwire::data
