#pragma once

#include <vector>

#include "auto/step_recorder.h"
#include "gradwire/options.h"
#include "methods/method.h"

namespace gradwire {

// What a profile is made of, besides the recorded steps.
struct RecordedJob {
  const Request& request;
  bool is_plain;
  const std::vector<Parameter>& parameters;
  std::vector<std::vector<size_t>> buckets;  // the parameters of each
  int64_t workers;
  double forward_seconds;
};

// For the planner; the rates of other methods are not known. Throws std::runtime_error where no
// step was recorded with these buckets.
planner::Profile recorded_profile(const RecordedJob& job, const StepRecorder& recorder);

}  // namespace gradwire
