#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "comm/peer_failure.h"
#include "methods/method.h"

namespace gradwire {

// Tells whoever waits for a transfer that all its rounds are launched.
struct AllLaunched {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;

  void announce(std::exception_ptr why) {
    {
      const std::lock_guard lock(mutex);
      error = std::move(why);
      done = true;
    }
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
    if (error) std::rethrow_exception(error);
  }
};

// An exchange on its way through its rounds.
struct Transfer {
  int64_t step = 0;  // for error messages
  std::unique_ptr<Exchange> exchange;
  int rounds_left = 0;       // that the method may still ask for
  bool is_followed = false;  // LaterRounds launches the rounds that are left
  bool gathers = false;      // in its first round

  Round round;  // the last one launched
  c10::intrusive_ptr<c10d::Work> work;
  std::unique_ptr<at::RecordFunction> span;  // from launch to the end of the wait, for profilers
  bool exhausted = false;                    // the exchange has seen its last round complete
  double sent_bytes = 0;                     // by all rounds
  // How long the exchange computed before its first round, between rounds, and after the last one,
  // and how long its caller waited for the network.
  double encode_seconds = 0;
  double between_seconds = 0;
  double decode_seconds = 0;
  double wait_seconds = 0;

  // Waits for the round under way.
  void wait() {
    with_other_workers(step, [&] { return work->wait(); });
    span.reset();
  }

  // It is shared because the thread that announces may outlive the transfer: see LaterRounds::run.
  std::shared_ptr<AllLaunched> all_launched = std::make_shared<AllLaunched>();
};

}  // namespace gradwire
