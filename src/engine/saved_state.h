#pragma once

// The form in which states are saved: what is in a state, and what makes one unfit to be loaded.
//
// The keys here are without their "worker<i>/" or "merged/":
//   format, method, workers (0: merged), steps, start_after, loss_scale
//   plan_since                 the step after which the present routes came
//   buckets                    with DDP: the layout of the next step
//   auto                       with method `auto`: what it has decided
//   <parameter>/treatment      its route: method and options
//   <parameter>/residual, ...  its tensors

#include <map>
#include <string>

#include "gradwire/state.h"

namespace gradwire::saved_state {

constexpr int64_t kFormat = 2;
constexpr int64_t kMerged = 0;  // in place of a number of workers
inline const std::string kTreatment = "/treatment";
inline const std::string kResidual = "/residual";
inline const std::string kVelocity = "/velocity";

State with_worker(const State& state, int worker);
// For a state that this worker has saved, or that StateMerger has made; with treatments in the
// words of this version. Throws std::invalid_argument for any other.
State without_worker(const State& state, int worker);
// The treatments by the names of their parameters.
std::map<std::string, std::string> treatments_in(const State& saved);

// `saved` in the form of this version, if it fits where `current` is the state; otherwise throws a
// std::invalid_argument that names the first difference.
State fitting(const State& current, State saved);

}  // namespace gradwire::saved_state
