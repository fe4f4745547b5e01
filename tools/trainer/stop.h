#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <string>

namespace gradwire::trainer {

// From now on a first SIGINT or SIGTERM asks for a stop, and a second one ends the process at once.
void catch_signals();

// Makes all workers stop before the same step.
//
// Only worker 0 looks at its signals, at every kStride-th step. It announces in the group's store
// that all stop kStride steps later. The others look at the store at every kStride-th step. That is
// early enough: every step has a collective, so no worker is kStride steps ahead of worker 0.
class StopAgreement {
 public:
  explicit StopAgreement(c10d::ProcessGroup& group);
  bool stops_before(int64_t step);

 private:
  c10d::ProcessGroup& group_;
  std::string key_;
  int64_t stop_ = -1;
};

}  // namespace gradwire::trainer
