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

// How a worker ended.
struct Ending {
  int status = 0;             // its exit status; 128 + n after signal n
  bool ended_by_lab = false;  // because another one had failed
};

// The largest status, leaving out workers that were ended because of another.
int worst_status(const std::vector<Ending>& endings);

// The signals that are passed on to the workers, and SIGCHLD.
sigset_t watched_signals();

// The workers of a run: starts them, passes on their output and signals, waits for their ends. To
// be used by the init of a process namespace, with the watched signals blocked.
class Workers {
 public:
  // Each worker runs `prepare(its number)` and then the program. Worker 0 writes where this process
  // does; the lines of the others pass through here and get their number in front.
  Workers(int count, const std::vector<std::string>& command, double grace_seconds,
          const std::function<void(int)>& prepare);

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

  void start(int number, const std::vector<std::string>& command,
             const std::function<void(int)>& prepare);
  void poll_once();
  static PollOutcome pass_on(Relay& relay);
  void on_signal(int signal);
  void collect_endings();
  void on_failure(int number);
  void on_deadline();
  int milliseconds_to_deadline() const;

  std::vector<pid_t> processes_;
  std::vector<Ending> endings_;
  size_t running_ = 0;
  std::vector<Relay> relays_;
  Descriptor signals_;
  std::chrono::duration<double> grace_;
  std::optional<Clock::time_point> deadline_;
  int signal_at_deadline_ = SIGTERM;
  std::optional<int> failed_first_;
  bool interrupted_ = false;
};

}  // namespace gradwire::lab
