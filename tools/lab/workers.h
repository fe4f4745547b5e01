#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/process.h"

namespace gradwire::lab {

struct WorkerSettings {
  int count = 1;
  std::vector<std::string> command;  // the program's path and its arguments
  std::string title;                 // with "host", worker 1 is called "host1"
  // How long workers may go on after one of them has failed, and after a signal; nothing sets no
  // limit: then the workers decide when they end.
  double seconds_after_failure = 5;
  std::optional<double> seconds_after_signal = 5;
  // Runs in a worker's process before the program, with the worker's number.
  std::function<void(int)> prepare;
};

// How a worker ended.
struct Ending {
  int status = 0;            // its exit status, or 128 + n after signal n
  bool was_stopped = false;  // the supervisor ended it because another worker had failed
};

// The largest status, leaving out workers that were stopped because of another.
int worst_status(const std::vector<Ending>& endings);

// SIGCHLD and the signals that are passed on to the workers.
sigset_t watched_signals();
// Must come before `Workers`, and before this process starts threads: they inherit it.
void block_watched_signals();

// The supervisor: starts the workers, passes on their output and the signals it receives, and waits
// until all have ended. Each worker leads a process group of its own, which signals go to.
class Workers {
 public:
  // Worker 0 writes where this process writes. The lines of the others pass through this process,
  // which puts the worker's name in front.
  explicit Workers(WorkerSettings settings);

  std::vector<Ending> wait();

 private:
  using Clock = std::chrono::steady_clock;

  // What a worker writes to one of its descriptors, line by line.
  struct Relay {
    Descriptor from;
    int to;
    std::string prefix;
    std::string partial_line;
  };
  enum class PollOutcome { more, ended };

  void start(int number);
  [[noreturn]] void become_worker(int number, const std::vector<Pipe>& pipes) const;
  std::string name_of(int number) const { return settings_.title + std::to_string(number); }
  void poll_once();
  static PollOutcome pass_on(Relay& relay);
  void on_signal(int signal);
  void collect_endings();
  void on_failure(int number);
  void on_deadline();
  void signal_all(int signal) const;
  void set_deadline(double seconds);
  int milliseconds_to_deadline() const;

  WorkerSettings settings_;
  std::vector<pid_t> processes_;
  std::vector<Ending> endings_;
  size_t running_ = 0;
  std::vector<Relay> relays_;
  Descriptor signals_;
  std::optional<Clock::time_point> deadline_;
  int signal_at_deadline_ = SIGTERM;
  std::optional<int> failed_first_;
  bool interrupted_ = false;
};

}  // namespace gradwire::lab
