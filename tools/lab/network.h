#pragma once

#include <cstdint>
#include <vector>

#include "lab/link.h"
#include "lab/namespaces.h"

namespace gradwire::lab {

// What a host's interface has sent and received. One packet may hold many frames of a TCP stream:
// the kernel counts before it splits them.
struct Counters {
  int64_t sent_bytes = 0;
  int64_t sent_packets = 0;
  int64_t received_bytes = 0;
  int64_t received_packets = 0;
};

// Hosts, each a network namespace, joined by links to a bridge. The bridge is made in the namespace
// of the caller, who must have left the machine's network before.
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
