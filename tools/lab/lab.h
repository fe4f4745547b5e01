#pragma once

#include <string>
#include <vector>

#include "lab/link.h"
#include "lab/network.h"
#include "lab/workers.h"

namespace gradwire::lab {

struct Settings {
  int hosts = 2;
  Link link;
  int threads = 1;           // per host: cores it is pinned to
  double grace_seconds = 5;  // from a failure or an interrupt to the end of the others
  std::vector<std::string> command;
};

struct HostResult {
  Ending ending;
  Counters counters;
  std::vector<int> cores;
};

struct Result {
  std::vector<HostResult> hosts;
  int status = 0;  // the worst of the hosts
  double seconds = 0;
};

// Runs the command once per host, on a network that exists for that long. Afterwards nothing is
// left of either, not even when this process is killed. This process does not come back to the
// machine's own network. Throws when it cannot make the network or does not find the command.
Result run(const Settings& settings);

}  // namespace gradwire::lab
