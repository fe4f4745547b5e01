#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>

#include "comm/transfer.h"
#include "methods/method.h"

namespace gradwire {

c10::intrusive_ptr<c10d::Work> start(c10d::ProcessGroup& group, const Round& round);

// Launches the transfer's next round and counts what it sends.
void launch(Transfer& transfer, Round round, c10d::ProcessGroup& group);

// What leaves each worker, as a multiple of what it passes to the collective: the volume of the
// ring algorithms, which no algorithm undercuts.
double sent_multiplier(Collective collective, int workers);

// For tests: a function that is called before every launch, on the thread that launches. Set it
// while nothing is under way.
void set_before_launch(std::function<void()> function);

}  // namespace gradwire
