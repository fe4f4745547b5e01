#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "trainer/schedule.h"

namespace gradwire::trainer {

// Shows the progress of worker 0: one line per epoch and, on a terminal, a line that changes with
// the steps.
class Progress {
 public:
  // All other workers are silent.
  Progress(std::string title, const Length& length, bool silent);

  bool due() const;  // whether it is time to call step() again
  void step(int64_t steps_done, double loss, int64_t sent_bytes);
  void epoch(int64_t epoch, double train_loss, double test_loss, double test_accuracy,
             double seconds, double compression);
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  std::string title_;
  Length length_;
  bool silent_;
  bool terminal_;
  bool shown_ = false;  // whether the changing line is on the screen
  Clock::time_point last_;
  Clock::time_point begin_;
  int64_t first_ = -1;         // number of steps done at the first call of step()
  int64_t sent_at_begin_ = 0;  // bytes sent until then
};

}  // namespace gradwire::trainer
