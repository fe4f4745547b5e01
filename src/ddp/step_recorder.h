#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "planner/profile.h"

namespace gradwire {

// When the buckets of the last steps were ready and what they cost: a few readings of the clock per
// bucket, from which a profile is made when someone asks for it.
class StepRecorder {
 public:
  explicit StepRecorder(std::weak_ptr<c10d::Reducer> reducer) : reducer_(std::move(reducer)) {}

  void begin_step();
  void forget() { steps_.clear(); }
  // In backward: its gradients are complete; then it is on its way.
  void bucket_is_ready(int64_t elements);
  void bucket_is_launched();
  // After backward; `bucket` counts from 0 in every step.
  void bucket_is_decoded(size_t bucket, double between_seconds, double decode_seconds);

  struct Bucket {
    int64_t elements = 0;
    // From the start of backward, less what other buckets held backward up by being encoded.
    double ready_seconds = 0;
    planner::CodingSeconds coding = {};
  };
  struct Medians {
    int64_t steps = 0;
    std::vector<Bucket> buckets;
  };
  // Over the steps whose buckets had these numbers of elements: others were laid out differently or
  // are not complete.
  Medians medians(const std::vector<int64_t>& elements) const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kSteps = 32;

  double seconds_since(Clock::time_point begin) const;
  double seconds_to_last_gradient();

  std::weak_ptr<c10d::Reducer> reducer_;    // it holds us, through its hook
  std::vector<int64_t> known_ready_times_;  // the Reducer's, when the last bucket was ready
  std::deque<std::vector<Bucket>> steps_;   // the last is under way
  Clock::time_point backward_start_;
  Clock::time_point bucket_ready_;
  double held_up_seconds_ = 0;  // by the buckets of this step so far
};

}  // namespace gradwire
