#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "methods/method.h"

namespace gradwire {

// One exchange of one bucket on its way through its rounds.
struct Leg {
  std::unique_ptr<Exchange> exchange;
  std::vector<Slot> slots;
  int rounds_left = 0;       // that the method may still ask for
  bool is_followed = false;  // by LaterRounds

  Round round;  // the last one launched
  c10::intrusive_ptr<c10d::Work> work;
  bool exhausted = false;      // the method has seen its last round complete
  double sent_bytes = 0;       // by all rounds
  double between_seconds = 0;  // spent by the method between rounds

  // For legs of more than one round: whoever completes the bucket waits until all rounds are
  // launched.
  std::mutex mutex;
  std::condition_variable changed;
  bool all_launched = false;
  std::exception_ptr error;
};

}  // namespace gradwire
