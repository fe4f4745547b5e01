#pragma once

// What runs now and its challengers, tried one after the other: the clock decides between them.
// Those that were close run once more, in the opposite order, and the better of the two times
// counts, because a machine that is slow for a while slows down whichever runs then.

#include <optional>
#include <vector>

#include "auto/decision.h"

namespace gradwire {

class Contest {
 public:
  // The seconds of the incumbent are measured, those of its challengers are predicted. Without
  // challengers it has won.
  explicit Contest(Decision incumbent, std::vector<Decision> challengers = {});

  bool is_over() const { return waiting_.empty(); }
  // The decision to be tried now. When the contest is over, the winner (see best_of()).
  const Decision& running() const;
  const std::vector<Decision>& contenders() const { return contenders_; }
  // Ends the turn of the running decision, whose steps took this long. A decision that could not
  // be timed has another turn later, unless it has been timed before.
  void take_turn(std::optional<double> seconds);

 private:
  friend nlohmann::json to_json(const Contest& contest);
  friend Contest contest_from_json(const nlohmann::json& value);

  const Decision& fastest() const;
  void call_finalists();

  std::vector<Decision> contenders_;  // the incumbent first; measured as far as they were tried
  std::vector<size_t> waiting_;       // indices of contenders, the one to be tried now last
  bool is_final_ = false;
};

nlohmann::json to_json(const Contest& contest);
// Throws std::invalid_argument naming the field that is wrong.
Contest contest_from_json(const nlohmann::json& value);

}  // namespace gradwire
