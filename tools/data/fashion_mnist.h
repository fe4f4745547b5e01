#pragma once

#include <string>

#include "data/dataset.h"

namespace gradwire::data {

// Where Debian's package puts it.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

// Names the package to install where the folder is missing.
Dataset load_fashion_mnist(const std::string& folder = kFashionMnistFolder);

}  // namespace gradwire::data
