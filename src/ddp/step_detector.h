#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace gradwire {

// Tells where a training step begins, from the buckets that a Reducer sends on their way.
//
// The Reducer launches the buckets of a step in ascending order and completes them when all are
// launched. So a bucket begins a step if
//   - it is the first of all, or does not come after the last one in the order, or
//   - all gradients of the model have come since the step before began, or
//   - the buckets before it are all complete.
// A worker that has run out of data (DDP's join) completes each bucket at once, and sends all of
// them: there the last rule does not hold, and the others suffice.
//
// Nothing simpler works. The last bucket of a step may never come
// (skip_all_reduce_unused_params), a backward may be cut short by an exception, and the id of the
// autograd graph changes within a step under activation checkpointing.
class StepDetector {
 public:
  // `elements`: of all gradients of the model.
  explicit StepDetector(int64_t elements) : elements_of_step_(elements) {}

  // `order`: ascends within a step. Without completions (plain all-reduce), steps that share no
  // bucket count as one.
  bool begins_step(size_t order, int64_t elements, bool has_joined = false) {
    const bool comes_again = last_ == kNone || order <= last_;
    const bool has_all = elements_so_far_ >= elements_of_step_;
    const bool after_complete = !has_joined && launched_ > 0 && completed_ == launched_;
    const bool begins = comes_again || has_all || after_complete;
    if (begins) elements_so_far_ = launched_ = completed_ = 0;
    last_ = order;
    elements_so_far_ += elements;
    ++launched_;
    return begins;
  }
  void bucket_is_complete() { ++completed_; }
  // Whatever comes next begins a step.
  void reset() { last_ = kNone; }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  int64_t elements_of_step_;
  size_t last_ = kNone;
  int64_t elements_so_far_ = 0;
  int64_t launched_ = 0;
  int64_t completed_ = 0;
};

}  // namespace gradwire
