#pragma once

// One training iteration, simulated event by event.

#include "planner/network.h"
#include "planner/profile.h"

namespace gradwire::planner {

struct Prediction {
  double seconds = 0;         // the whole iteration
  double coding_seconds = 0;  // encoding, decoding and the work between rounds
  double wire_seconds = 0;    // of the collectives, had each the network to itself
};

// Forward, then backward with every bucket encoded as it becomes ready, then bucket by bucket the
// wait for its last round and its decoding: all on the worker's own thread. First rounds run one
// after the other, second rounds too on a channel of their own; the work between the two is done by
// a further thread in bucket order. Channels under way at the same time share the bandwidth,
// threads computing at the same time share the processor (Profile::contention).
//
// Where a method has several kinds of steps that take turns, it is the mean over them.
Prediction simulate(const Profile& profile, const Network& network, const MethodChoice& choice);

}  // namespace gradwire::planner
