#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <string>

namespace gradwire::trainer {

// From now on the first SIGINT or SIGTERM asks for a stop; a second one ends the process at once.
void catch_signals();

// Makes all workers stop before the same step.
//
// Worker 0 alone looks at its signals, at every kStride-th step, and announces a stop at the next
// such step in the group's store. No worker can be a whole stride ahead of worker 0, since every
// step has a collective: so each finds the announcement in time by looking as rarely.
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
