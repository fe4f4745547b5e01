#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "planner/profile.h"

namespace gradwire {

// When the buckets of the last steps were ready and what they cost: a few readings of the clock per
// bucket, from which a profile is made when someone asks for it, on any thread.
class StepRecorder {
 public:
  explicit StepRecorder(std::weak_ptr<c10d::Reducer> reducer) : reducer_(std::move(reducer)) {}

  void begin_step();
  void forget();
  // In backward: its gradients are complete; then it is on its way.
  void bucket_is_ready(const at::Tensor& buffer);
  void bucket_is_launched();
  // After backward; `bucket` counts from 0 in every step.
  void bucket_is_decoded(size_t bucket, double between_seconds, double decode_seconds,
                         double gathered_bytes);

  struct Bucket {
    int64_t elements = 0;
    // From the start of backward, less what held it up: other buckets that were encoded, and on a
    // CPU other threads that had its processor.
    double ready_seconds = 0;
    double lost_seconds = 0;  // to other threads, since the bucket before
    planner::CodingSeconds coding = {};
    double gathered_bytes = 0;
  };
  struct Medians {
    int64_t steps = 0;
    double lost_seconds = 0;  // of a step
    std::vector<Bucket> buckets;
  };
  // Over the steps whose buckets had these numbers of elements: others were laid out differently or
  // are not complete.
  Medians medians(const std::vector<int64_t>& elements) const;

 private:
  struct Moment {
    std::chrono::steady_clock::time_point time;
    double delayed_seconds = 0;  // that the thread could have run and had no processor, so far
    std::thread::id thread;

    static Moment now();
    double seconds_since(const Moment& earlier) const;
    double delayed_seconds_since(const Moment& earlier) const;
  };
  static constexpr size_t kSteps = 32;

  void append_step();
  double seconds_to_last_gradient();

  mutable std::mutex mutex_;
  std::weak_ptr<c10d::Reducer> reducer_;    // it holds us, through its hook
  std::vector<int64_t> known_ready_times_;  // the Reducer's, when the last bucket was ready
  std::deque<std::vector<Bucket>> steps_;   // the last is under way
  Moment bucket_ready_;
  Moment backward_went_on_;  // after the last bucket was launched
};

}  // namespace gradwire
