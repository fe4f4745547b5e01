#include "auto/recorded_profile.h"

#include <limits>
#include <stdexcept>

#include "methods/device_code.h"
#include "methods/registry.h"

namespace gradwire {
namespace {

constexpr size_t kLeftOut = std::numeric_limits<size_t>::max();

// The running method in the planner's terms; nothing where the planner has none for it, as for
// `auto`.
std::optional<planner::MethodChoice> running_choice(const RecordedJob& job) {
  if (job.is_plain) return planner::MethodChoice();
  const MethodEntry& entry = find_method(job.request.method);
  if (entry.models.empty()) return std::nullopt;
  return choice_of(entry, job.request.options);
}

std::vector<int64_t> elements_of(const RecordedJob& job) {
  std::vector<int64_t> elements;
  for (const std::vector<size_t>& bucket : job.buckets) {
    elements.push_back(0);
    for (const size_t i : bucket) elements.back() += job.parameters[i].tensor.numel();
  }
  return elements;
}

// Those without elements cost nothing and are no shapes to the planner. Returns the places of all.
std::vector<size_t> add_parameters(const RecordedJob& job, planner::Profile& profile) {
  std::vector<size_t> places;
  for (const Parameter& parameter : job.parameters) {
    const bool is_empty = parameter.tensor.numel() == 0;
    places.push_back(is_empty ? kLeftOut : profile.parameters.size());
    if (!is_empty) {
      profile.parameters.push_back({parameter.name, parameter.tensor.sizes().vec()});
    }
  }
  return places;
}

planner::Bucket bucket_of(const std::vector<size_t>& parameters, const std::vector<size_t>& places,
                          const StepRecorder::Bucket& recorded) {
  planner::Bucket bucket{.parameters = {},
                         .ready_seconds = recorded.ready_seconds,
                         .measured = recorded.coding,
                         .gathered_bytes = recorded.gathered_bytes};
  for (const size_t i : parameters) {
    if (places[i] != kLeftOut) bucket.parameters.push_back(places[i]);
  }
  return bucket;
}

}  // namespace

planner::Profile recorded_profile(const RecordedJob& job, const StepRecorder& recorder) {
  const StepRecorder::Medians medians = recorder.medians(elements_of(job));
  if (medians.steps == 0) {
    throw std::runtime_error(
        "gradwire: a profile is made from complete steps with the buckets that the model has now; "
        "there are 0 so far: run 3 steps after attach() or load_state_dict() first");
  }
  planner::Profile profile;
  profile.name = "recorded profile";
  profile.device = is_host(job.parameters.front().tensor.device()) ? "cpu" : "gpu";
  profile.forward_seconds = job.forward_seconds;
  profile.lost_seconds = medians.lost_seconds;
  if (const auto choice = running_choice(job)) {
    profile.measured = {.choice = *choice, .workers = job.workers, .steps = medians.steps};
  }
  const std::vector<size_t> places = add_parameters(job, profile);
  for (size_t i = 0; i < job.buckets.size(); ++i) {
    const planner::Bucket bucket = bucket_of(job.buckets[i], places, medians.buckets[i]);
    if (!bucket.parameters.empty()) profile.buckets.push_back(bucket);
  }
  profile.backward_seconds = profile.buckets.back().ready_seconds;
  return profile;
}

}  // namespace gradwire
