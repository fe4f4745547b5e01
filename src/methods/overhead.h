#pragma once

#include <cstdint>
#include <vector>

namespace gradwire {

// Shares out what belongs to a payload as a whole (its header, its padding) among its slots, so
// that their bytes add up to all that is sent.
inline void share_overhead(int64_t overhead, std::vector<int64_t>& bytes) {
  const auto slots = static_cast<int64_t>(bytes.size());
  for (int64_t i = 0; i < slots; ++i) {
    bytes[i] += overhead / slots + (i < overhead % slots ? 1 : 0);
  }
}

}  // namespace gradwire
