#pragma once

// What runs now against a decision that is predicted to be faster and others that may be, tried one
// after the other: the clock decides between them. Those that were close run once more, in the
// opposite order, and the better of the two times counts: what slows the machine down for a while
// slows down whoever runs then.

#include <optional>
#include <vector>

#include "planner/decision.h"

namespace gradwire::planner {

class Contest {
 public:
  // The time of the one that runs now is measured, those of its challengers are predicted. It has
  // won where there are none.
  explicit Contest(Decision incumbent, std::vector<Decision> challengers = {});

  bool is_over() const { return waiting_.empty(); }
  // The one to be tried now; when it is over, the winner: of those within the tolerance of the
  // fastest the least lossy.
  const Decision& running() const;
  const std::vector<Decision>& contenders() const { return contenders_; }
  // The running one's steps take this long: now the next. Whoever could not be timed has its turn
  // again later, unless it has been timed before.
  void take_turn(std::optional<double> seconds);

 private:
  friend nlohmann::json to_json(const Contest& contest);
  friend Contest contest_from_json(const nlohmann::json& value);

  const Decision& fastest() const;
  void call_finalists();

  std::vector<Decision> contenders_;  // with measured seconds, as far as they have been tried
  std::vector<size_t> waiting_;       // contenders, the one to be tried now last
  bool is_final_ = false;
};

nlohmann::json to_json(const Contest& contest);
// Throws std::invalid_argument naming the field that is wrong.
Contest contest_from_json(const nlohmann::json& value);

// Who might beat `best`, which was decided from the same: one method for all buckets, predicted
// to take little longer. The most promising first.
std::vector<Decision> rivals(const Decision& best, const Profile& profile, const Network& network,
                             std::span<const MethodChoice> candidates, double other_seconds);

}  // namespace gradwire::planner
