#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "methods/method.h"

namespace gradwire {

c10::intrusive_ptr<c10d::Work> launch(c10d::ProcessGroup& group, Round& round);

// What leaves each worker, as a multiple of what it passes to the collective: the volume of the
// ring algorithms, which no algorithm undercuts.
double sent_multiplier(Collective collective, int workers);

}  // namespace gradwire
