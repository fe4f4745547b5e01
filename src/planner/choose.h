#pragma once

// Which method, and where a method begins to pay.

#include <span>

#include "planner/simulate.h"

namespace gradwire::planner {

// Of two plans whose predicted times differ by no more than this part, the less lossy is the
// better.
inline constexpr double kTolerance = 0.02;

// The least lossy candidate within the tolerance of the fastest. All-reduce takes part whether
// named or not.
MethodChoice choose(const Profile& profile, const Network& network,
                    std::span<const MethodChoice> candidates);

enum class Helps : uint8_t { never, below, always };

struct BreakEven {
  Helps helps;
  double bandwidth = 0;  // between nodes; where it helps below
};

// The highest bandwidth between nodes, within 10 Mb/s to 10 Tb/s, below which the method's
// iteration is shorter than all-reduce's.
BreakEven break_even(const Profile& profile, const Network& network, const MethodChoice& choice);

}  // namespace gradwire::planner
