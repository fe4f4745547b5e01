#pragma once

#include <string>

#include "data/dataset.h"

namespace gradwire::data {

// The binary version of CIFAR-10: those of data_batch_1.bin to data_batch_5.bin that are there, at
// least one, in this order, and test_batch.bin. A file may hold fewer than the 10,000 images of the
// original, but none in part.
Dataset load_cifar10(const std::string& folder);

}  // namespace gradwire::data
