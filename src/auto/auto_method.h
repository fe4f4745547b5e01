#pragma once

// Method `auto`: measures a few plain steps, predicts which methods make them shorter, tries those
// by the clock, and watches whether steps take as long as it expects.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "auto/challengers.h"
#include "auto/contest.h"
#include "gradwire/options.h"
#include "planner/device.h"
#include "planner/measured_link.h"

namespace gradwire {

struct MethodEntry;

class AutoMethod {
 public:
  AutoMethod(Request request, c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device);

  // What it asks for when it decides.
  struct Job {
    std::function<planner::Profile()> profile;
    std::function<double()> waited_seconds;  // after backward, for communication, in a step
  };
  // Before every step, with the number of those done: the same calls on all workers. Collective
  // now and then. True if decided() has changed.
  bool look(int64_t steps, const Job& job);
  // One line about what the last look has decided, on worker 0. Empty from then on.
  std::string take_message() { return std::exchange(message_, {}); }

  // The most that any of its candidates makes.
  int rounds() const;

  // The request with what was decided as further per_parameter entries.
  Request decided() const { return with(decision(), request_); }

  // What was decided as text, to be saved; a resumed run starts with it, and goes on with what was
  // being tried. Throws std::invalid_argument for a text that is none.
  std::string saved() const;
  // What was decided in `saved`. Parameters keep the options of their saved treatments: another
  // version may have had other defaults.
  Request decided_in(const std::string& saved,
                     const std::map<std::string, std::string>& treatments) const;
  void load(const std::string& saved, int64_t steps);

 private:
  using Clock = std::chrono::steady_clock;

  struct Saved {
    Contest contest;
    int64_t next_look;  // before this step
    double other_seconds;
  };
  static Saved parse(const std::string& saved);

  const Decision& decision() const { return contest_.running(); }
  OptionMap options_of(const std::string& candidate) const;
  // The options, with the rank if one was given.
  OptionMap with_rank(const MethodEntry& method, OptionMap options) const;
  Request with(const Decision& decision, Request request) const;
  void record_step(int64_t steps);
  double step_seconds() const;
  void try_next();
  bool is_time_to_measure(int64_t steps) const;
  void measure_and_decide(const Job& job);
  Contest contest_on(const planner::MeasuredLink& link, const planner::Device& device,
                     const Job& job);
  Situation situation_on(const planner::MeasuredLink& link, const planner::Device& device,
                         const Job& job);
  void tell(const Decision& decision);
  std::vector<planner::MethodChoice> candidates() const;
  void share(const Contest& contest);
  std::string from_first_worker(const std::string& text) const;

  Request request_;
  OptionMap options_;  // its own, complete
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Device device_;

  bool has_decided_ = false;
  Contest contest_{Decision()};
  std::map<std::string, std::string> told_;  // Decision::methods of the last message
  double other_seconds_ = 0;                 // of a step, that the model does not know of
  std::string message_;

  int64_t next_look_;
  int64_t pause_;              // steps between two looks
  int64_t last_measured_ = 0;  // the step at which the link was measured
  int64_t last_step_ = -1;
  Clock::time_point last_time_;
  std::vector<double> seconds_;  // of the steps since the last look
};

}  // namespace gradwire
