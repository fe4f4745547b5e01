#pragma once

// The form in which states are saved: what is in a state, and what makes one unfit to be loaded.
//
// Here a state's keys have lost their "worker<i>/" (or "merged/"):
//   format, method, workers (0: merged), steps, start_after, loss_scale, buckets,
//   plan_since (the step after which the plan came), auto (its decision, where that is the method)
//   <parameter>/treatment      how it travels: method and options
//   <parameter>/residual, ...  its tensors

#include "gradwire/state.h"

namespace gradwire::saved_state {

constexpr int64_t kFormat = 2;
constexpr int64_t kMerged = 0;  // in place of a number of workers
inline const std::string kResidual = "/residual";

State with_worker(const State& state, int worker);
// Of a state that this worker, or StateMerger, saved. Throws std::invalid_argument.
State without_worker(const State& state, int worker);

// `saved` in the form of this version, if it fits where `current` is the state; otherwise throws a
// std::invalid_argument that names the first difference.
State fitting(const State& current, State saved);

}  // namespace gradwire::saved_state
