#pragma once

#include "data/dataset.h"

namespace gradwire::data {

// Sets the mean and the deviation of every channel of the training images, with pixels scaled to
// [0, 1]. A channel without variation gets a deviation of 1, so that dividing by it is safe.
void measure_channels(Dataset& images);

}  // namespace gradwire::data
