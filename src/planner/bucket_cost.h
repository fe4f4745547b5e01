#pragma once

// What one bucket costs with one method: the shape of the method's exchange in src/methods, in
// numbers.

#include <array>

#include "planner/network.h"
#include "planner/profile.h"

namespace gradwire::planner {

inline constexpr size_t kMostRounds = 2;

struct RoundCost {
  Collective collective = Collective::all_reduce;
  double bytes = 0;            // as for cost_of()
  double compute_seconds = 0;  // before it can start: encoding, or the work between the rounds
};

struct BucketCost {
  std::array<RoundCost, kMostRounds> rounds;
  size_t round_count = 1;
  double decode_seconds = 0;
};

// acpsgd sends the factor P in one step and Q in the next.
enum class AcpsgdStep : uint8_t { p, q };

BucketCost bucket_cost(const Profile& profile, const Bucket& bucket, const MethodChoice& choice,
                       int64_t workers, AcpsgdStep step);

}  // namespace gradwire::planner
