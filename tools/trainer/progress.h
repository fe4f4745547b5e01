#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gradwire::trainer {

// What worker 0 shows while it trains: on a terminal a line that moves, and one line per epoch; to
// a file or a pipe the lines only.
class Progress {
 public:
  // A silent one (of every other worker) shows nothing.
  Progress(std::string title, int64_t epochs, bool silent);

  // Whether step() would show anything new.
  bool due() const;
  void step(int64_t epoch, int64_t step, int64_t steps, double loss, int64_t sent_bytes);
  void epoch(int64_t epoch, double train_loss, double test_loss, double test_accuracy,
             double seconds, double compression);
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  std::string title_;
  int64_t epochs_;
  bool silent_;
  bool terminal_;
  bool shown_ = false;  // a moving line is on the screen
  Clock::time_point last_;
  Clock::time_point begin_;
  int64_t first_ = -1;         // steps that were done when this began
  int64_t sent_at_begin_ = 0;  // bytes
};

}  // namespace gradwire::trainer
