#pragma once

#include <cstdint>
#include <vector>

#include "lab/link.h"
#include "lab/namespaces.h"

namespace gradwire::lab {

// What a host's interface has sent and received. Packets are as the kernel hands them on: many
// frames of a TCP stream may be one.
struct Counters {
  int64_t sent_bytes = 0;
  int64_t sent_packets = 0;
  int64_t received_bytes = 0;
  int64_t received_packets = 0;
};

// Hosts, a network namespace each, joined by links to a bridge. The caller must have left the
// machine's network: the bridge is made in the namespace it is in.
class Network {
 public:
  Network(int hosts, const Link& link);

  const NetworkNamespace& host(int number) const { return hosts_[static_cast<size_t>(number)]; }
  Counters counters(int host) const;

 private:
  void join(int host, const Link& link);

  std::vector<NetworkNamespace> hosts_;
};

}  // namespace gradwire::lab
