#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "trainer/schedule.h"

namespace gradwire::trainer {

// Shows the progress of worker 0: one line per epoch, or one at the end if the length of the
// training is a time, and, on a terminal, a line that changes with the steps.
class Progress {
 public:
  // `seconds` is the length as a time, or 0. All other workers are silent.
  Progress(std::string title, const Length& length, double seconds, bool silent);

  bool due() const;  // whether it is time to call step() again
  // `trained` is the training time so far, in seconds.
  void step(int64_t steps_done, double loss, int64_t sent_bytes, double trained);
  void epoch(int64_t epoch, double train_loss, double test_loss, double test_accuracy,
             double seconds, double compression);
  // The time is over.
  void end(int64_t steps_done, double test_accuracy, double seconds, double compression);
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  void clear();
  std::string place(int64_t steps_done, double trained) const;

  std::string title_;
  Length length_;
  double seconds_;
  bool silent_;
  bool terminal_;
  bool shown_ = false;  // whether the changing line is on the screen
  Clock::time_point last_;
  Clock::time_point begin_;
  int64_t first_ = -1;         // number of steps done at the first call of step()
  int64_t sent_at_begin_ = 0;  // bytes sent until then
};

}  // namespace gradwire::trainer
