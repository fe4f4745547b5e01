#include "auto/step_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "methods/device_code.h"
#include "planner/quantile.h"

namespace gradwire {
namespace {

// The kernel's counts of one thread. Kept open, as opening takes eight times as long as reading.
class SchedulerStatistics {
 public:
  SchedulerStatistics() = default;
  SchedulerStatistics(const SchedulerStatistics&) = delete;
  SchedulerStatistics& operator=(const SchedulerStatistics&) = delete;
  ~SchedulerStatistics() {
    if (file_ >= 0) close(file_);
  }

  // For how long the thread could have run and others had the processor; 0 where the kernel does
  // not count it.
  double delayed_seconds() const {
    std::array<char, 64> text{};  // "ran waited slices", the first two in nanoseconds
    if (pread(file_, text.data(), text.size() - 1, 0) <= 0) return 0;
    char* after_first = nullptr;
    std::strtoll(text.data(), &after_first, 10);
    return 1e-9 * static_cast<double>(std::strtoll(after_first, nullptr, 10));
  }

 private:
  int file_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
};

std::vector<int64_t> elements_of(const std::vector<StepRecorder::Bucket>& step) {
  std::vector<int64_t> elements;
  for (const StepRecorder::Bucket& bucket : step) elements.push_back(bucket.elements);
  return elements;
}

}  // namespace

StepRecorder::Moment StepRecorder::Moment::now() {
  thread_local const SchedulerStatistics own;
  return {std::chrono::steady_clock::now(), own.delayed_seconds(), std::this_thread::get_id()};
}

double StepRecorder::Moment::seconds_since(const Moment& earlier) const {
  return std::chrono::duration<double>(time - earlier.time).count();
}

double StepRecorder::Moment::delayed_seconds_since(const Moment& earlier) const {
  if (thread != earlier.thread) return 0;
  return std::clamp(delayed_seconds - earlier.delayed_seconds, 0.0, seconds_since(earlier));
}

void StepRecorder::begin_step() {
  const std::lock_guard lock(mutex_);
  append_step();
}

void StepRecorder::forget() {
  const std::lock_guard lock(mutex_);
  steps_.clear();
}

void StepRecorder::append_step() {
  steps_.emplace_back();
  if (steps_.size() > kSteps) steps_.pop_front();
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

void StepRecorder::bucket_is_ready(const at::Tensor& buffer) {
  const std::lock_guard lock(mutex_);
  bucket_ready_ = Moment::now();
  const double last_gradient = seconds_to_last_gradient();
  if (steps_.empty()) append_step();  // what was recorded was forgotten in the middle of a step
  std::vector<Bucket>& step = steps_.back();
  Bucket bucket{.elements = buffer.numel()};
  if (step.empty()) {
    bucket.ready_seconds = last_gradient;  // nothing was sent so far
  } else {
    // On another device the thread only hands out work.
    if (is_host(buffer.device())) {
      bucket.lost_seconds = bucket_ready_.delayed_seconds_since(backward_went_on_);
    }
    bucket.ready_seconds = step.back().ready_seconds +
                           bucket_ready_.seconds_since(backward_went_on_) - bucket.lost_seconds;
  }
  step.push_back(bucket);
  backward_went_on_ = bucket_ready_;
}

void StepRecorder::bucket_is_launched() {
  const std::lock_guard lock(mutex_);
  backward_went_on_ = Moment::now();
  steps_.back().back().coding.encode = backward_went_on_.seconds_since(bucket_ready_);
}

void StepRecorder::bucket_is_decoded(size_t bucket, double between_seconds, double decode_seconds,
                                     double gathered_bytes) {
  const std::lock_guard lock(mutex_);
  Bucket& decoded = steps_.back().at(bucket);
  decoded.coding.between = between_seconds;
  decoded.coding.decode = decode_seconds;
  decoded.gathered_bytes = gathered_bytes;
}

StepRecorder::Medians StepRecorder::medians(const std::vector<int64_t>& elements) const {
  const std::lock_guard lock(mutex_);
  Medians medians;
  std::vector<const std::vector<Bucket>*> alike;
  for (const std::vector<Bucket>& step : steps_) {
    if (elements_of(step) == elements) alike.push_back(&step);
  }
  if (alike.empty()) return medians;
  medians.steps = static_cast<int64_t>(alike.size());
  std::vector<double> lost;
  for (const auto* step : alike) {
    lost.push_back(0);
    for (const Bucket& bucket : *step) lost.back() += bucket.lost_seconds;
  }
  medians.lost_seconds = planner::median(std::move(lost));
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto median_of = [&](auto&& figure) {
      std::vector<double> values;
      for (const auto* step : alike) values.push_back(figure((*step)[i]));
      return planner::median(std::move(values));
    };
    medians.buckets.push_back(
        {.elements = elements[i],
         .ready_seconds = median_of([](const Bucket& b) { return b.ready_seconds; }),
         .coding = {.encode = median_of([](const Bucket& b) { return b.coding.encode; }),
                    .between = median_of([](const Bucket& b) { return b.coding.between; }),
                    .decode = median_of([](const Bucket& b) { return b.coding.decode; })},
         .gathered_bytes = median_of([](const Bucket& b) { return b.gathered_bytes; })});
  }
  return medians;
}

}  // namespace gradwire
