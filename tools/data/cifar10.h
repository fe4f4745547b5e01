#pragma once

#include <string>

#include "data/dataset.h"

namespace gradwire::data {

// Reads the binary version of CIFAR-10: test_batch.bin and, in this order, those of
// data_batch_1.bin to data_batch_5.bin that exist. At least one must exist. A file may hold fewer
// than the 10,000 images of the original, but only whole ones.
Dataset load_cifar10(const std::string& folder);

}  // namespace gradwire::data
