#include "ddp/step_recorder.h"

#include <algorithm>

#include "planner/link_fit.h"

namespace gradwire {
namespace {

std::vector<int64_t> elements_of(const std::vector<StepRecorder::Bucket>& step) {
  std::vector<int64_t> elements;
  for (const StepRecorder::Bucket& bucket : step) elements.push_back(bucket.elements);
  return elements;
}

}  // namespace

void StepRecorder::begin_step() {
  steps_.emplace_back();
  if (steps_.size() > kSteps) steps_.pop_front();
  held_up_seconds_ = 0;
}

double StepRecorder::seconds_since(Clock::time_point begin) const {
  return std::chrono::duration<double>(bucket_ready_ - begin).count();
}

// From the end of forward, by the Reducer's clock. It keeps a time for every gradient from step to
// step, so only those that have changed are of this step.
double StepRecorder::seconds_to_last_gradient() {
  const auto reducer = reducer_.lock();
  if (reducer == nullptr) return 0;
  const std::vector<int64_t> times = reducer->get_backward_stats();
  known_ready_times_.resize(times.size(), 0);
  int64_t last = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] != known_ready_times_[i]) last = std::max(last, times[i]);
  }
  known_ready_times_ = times;
  return static_cast<double>(last) * 1e-9;
}

void StepRecorder::bucket_is_ready(int64_t elements) {
  bucket_ready_ = Clock::now();
  const double last_gradient = seconds_to_last_gradient();
  if (steps_.empty()) begin_step();  // what was recorded was forgotten in the middle of a step
  std::vector<Bucket>& step = steps_.back();
  if (step.empty()) {
    backward_start_ = bucket_ready_ - std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(last_gradient));
  }
  step.push_back({elements, seconds_since(backward_start_) - held_up_seconds_});
}

void StepRecorder::bucket_is_launched() {
  const std::chrono::duration<double> taken = Clock::now() - bucket_ready_;
  steps_.back().back().coding.encode = taken.count();
  held_up_seconds_ += taken.count();
}

void StepRecorder::bucket_is_decoded(size_t bucket, double between_seconds, double decode_seconds) {
  planner::CodingSeconds& coding = steps_.back().at(bucket).coding;
  coding.between = between_seconds;
  coding.decode = decode_seconds;
}

StepRecorder::Medians StepRecorder::medians(const std::vector<int64_t>& elements) const {
  Medians medians;
  std::vector<const std::vector<Bucket>*> alike;
  for (const std::vector<Bucket>& step : steps_) {
    if (elements_of(step) == elements) alike.push_back(&step);
  }
  if (alike.empty()) return medians;
  medians.steps = static_cast<int64_t>(alike.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto median_of = [&](auto&& figure) {
      std::vector<double> values;
      for (const auto* step : alike) values.push_back(figure((*step)[i]));
      return planner::median(std::move(values));
    };
    medians.buckets.push_back(
        {elements[i],
         median_of([](const Bucket& b) { return b.ready_seconds; }),
         {.encode = median_of([](const Bucket& b) { return b.coding.encode; }),
          .between = median_of([](const Bucket& b) { return b.coding.between; }),
          .decode = median_of([](const Bucket& b) { return b.coding.decode; })}});
  }
  return medians;
}

}  // namespace gradwire
