#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradwire::lab {

// The connection of a host to the switch.
struct Link {
  std::optional<int64_t> bits_per_second;  // in each direction; nothing means no limit
  std::optional<double> delay_seconds;     // of each packet, from one host to another
  std::optional<double> loss;              // the share of packets that do not arrive
  bool needs_netem() const { return delay_seconds.has_value() || loss.has_value(); }
};

// The token bucket that limits a link to a rate.
struct Bucket {
  int64_t burst_bytes;         // may pass at once after a pause
  int64_t queue_bytes;         // may wait; further packets are dropped
  int64_t super_packet_bytes;  // the most that TCP may hand over as one packet
};
Bucket bucket_for(int64_t bits_per_second);

// Options of `ip link set` and arguments of `tc`. They give the link's properties to what an
// interface sends. `towards_host` is true for the switch's end of the link. Delay and loss happen
// only there, so that each packet meets them once.
std::vector<std::string> offload_options(const Link& link);
std::vector<std::vector<std::string>> queue_commands(const Link& link, const std::string& interface,
                                                     bool towards_host);

}  // namespace gradwire::lab
