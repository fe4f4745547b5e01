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
  int threads = 1;           // of each host, and the number of cores that it is pinned to
  double grace_seconds = 5;  // how long hosts may go on after a failure or a signal
  std::vector<std::string> command;
};

struct HostResult {
  Ending ending;
  Counters counters;
  std::vector<int> cores;
};

struct Result {
  std::vector<HostResult> hosts;
  int status = 0;  // the worst of the hosts'
  double seconds = 0;
};

// Makes a network, runs the command once per host on it, and removes everything afterwards, even if
// this process is killed. This process does not return to the machine's own network. Throws if it
// cannot make the network or does not find the command.
Result run(const Settings& settings);

}  // namespace gradwire::lab
