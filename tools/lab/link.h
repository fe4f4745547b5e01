#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradwire::lab {

// What joins a host to the switch.
struct Link {
  std::optional<int64_t> bits_per_second;  // each way; nothing: no limit
  std::optional<double> delay_seconds;     // from one host to another, added to each packet
  std::optional<double> loss;              // the share of packets that never arrives
  bool needs_netem() const { return delay_seconds.has_value() || loss.has_value(); }
};

// How a token bucket meets a rate.
struct Bucket {
  int64_t burst_bytes;  // what may pass at once after a pause
  int64_t queue_bytes;  // what may wait before packets are dropped
  int64_t super_packet_bytes;
};
Bucket bucket_for(int64_t bits_per_second);

// The options of `ip link set` and the arguments of `tc` that give an interface the properties of
// the link in the direction it sends in. `towards_host`: the interface is the switch's, not the
// host's; delay and loss happen there, so that each packet meets them once.
std::vector<std::string> offload_options(const Link& link);
std::vector<std::vector<std::string>> queue_commands(const Link& link, const std::string& interface,
                                                     bool towards_host);

}  // namespace gradwire::lab
