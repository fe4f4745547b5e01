#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "gradwire/stats.h"

namespace gradwire {

// What stats() reports. Its lock is held for moments only, never while a step computes or waits, so
// that anybody can ask at any time.
class Counters {
 public:
  using Plan = std::map<std::string, std::string>;

  explicit Counters(std::string method) : method_(std::move(method)) {}

  int64_t steps() const;
  Stats stats() const;

  void begin_step();
  // What was done since the last call, but for the number of steps.
  void add(const Counts& done);
  void set_plan(Plan plan, LossClass loss_class);
  // A training is resumed after so many steps.
  void resume_at(int64_t steps);

 private:
  static constexpr size_t kRecentSteps = 32;

  mutable std::mutex mutex_;
  std::string method_;
  std::shared_ptr<const Plan> plan_ = std::make_shared<Plan>();
  LossClass loss_class_ = LossClass::exact;
  Counts total_;
  std::deque<Counts> before_;  // the totals at the beginning of each of the recent steps
};

}  // namespace gradwire
