#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "comm/transfer.h"

namespace gradwire {

// Launches every round of an exchange after its first.
//
// Workers must launch collectives of a group in the same order, but the order in which rounds
// complete differs from worker to worker. So there is a stage for the second rounds of all buckets,
// one for the third rounds, and so on. Each has a thread that takes the buckets in the order of
// their first rounds, and a process group of its own: on the Reducer's group it would race with the
// Reducer's collectives and the user's.
class LaterRounds {
 public:
  explicit LaterRounds(const std::vector<c10::intrusive_ptr<c10d::ProcessGroup>>& groups);
  ~LaterRounds();
  LaterRounds(const LaterRounds&) = delete;
  LaterRounds& operator=(const LaterRounds&) = delete;

  // Takes over a transfer whose first round is under way.
  void follow(std::shared_ptr<Transfer> transfer);

 private:
  struct Stage {
    c10::intrusive_ptr<c10d::ProcessGroup> group;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<Transfer>> waiting;
    std::vector<std::shared_ptr<Transfer>> abandoned;  // that nobody else holds any more
    bool stopping = false;
    std::thread thread;
  };

  void enqueue(size_t stage, std::shared_ptr<Transfer> transfer);
  void run(size_t index);
  // True if the transfer goes on to the next stage.
  static bool advance(Transfer& transfer, c10d::ProcessGroup& group);

  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace gradwire
