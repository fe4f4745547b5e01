#include "lab/network.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "lab/host.h"

namespace gradwire::lab {
namespace {

constexpr const char* kSwitch = "switch";

void ip(const std::vector<std::string>& arguments) { run_iproute("ip", arguments); }

void shape(const std::string& interface, const Link& link, bool towards_host) {
  const std::vector<std::string> offload = offload_options(link);
  if (!offload.empty()) {
    std::vector<std::string> command = {"link", "set", "dev", interface};
    command.insert(command.end(), offload.begin(), offload.end());
    ip(command);
  }
  for (const auto& command : queue_commands(link, interface, towards_host)) {
    run_iproute("tc", command);
  }
}

void require_netem() {
  try {
    run_iproute("tc", {"qdisc", "add", "dev", kSwitch, "root", "netem", "delay", "1ms"});
    run_iproute("tc", {"qdisc", "del", "dev", kSwitch, "root"});
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(
        std::string("--delay and --loss need the kernel module sch_netem, which this kernel does "
                    "not have or has not loaded (try `modprobe sch_netem` as root): ") +
        error.what());
  }
}

}  // namespace

Network::Network(int hosts, const Link& link) {
  ip({"link", "add", "name", kSwitch, "type", "bridge"});
  if (link.needs_netem()) require_netem();
  ip({"link", "set", "dev", kSwitch, "up"});
  for (int host = 0; host < hosts; ++host) join(host, link);
}

void Network::join(int host, const Link& link) {
  const std::string port = "port" + std::to_string(host);
  hosts_.push_back(NetworkNamespace::create());
  const NetworkNamespace& inside = hosts_.back();
  const Descriptor handle = inside.inheritable_handle();
  ip({"link", "add", "name", port, "type", "veth", "peer", "name", kInterface, "netns",
      "/proc/self/fd/" + std::to_string(handle.get())});
  shape(port, link, /*towards_host=*/true);
  ip({"link", "set", "dev", port, "master", kSwitch, "up"});

  const Visit visit(inside);
  shape(kInterface, link, /*towards_host=*/false);
  ip({"address", "add", host_address(host) + "/24", "dev", kInterface});
  ip({"link", "set", "dev", kInterface, "up"});
  ip({"link", "set", "dev", "lo", "up"});
}

Counters Network::counters(int host) const {
  const Visit visit(this->host(host));
  std::ifstream file("/proc/thread-self/net/dev");
  const std::string start = std::string(kInterface) + ':';
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (name != start) continue;
    Counters counters;
    int64_t other = 0;
    fields >> counters.received_bytes >> counters.received_packets;
    for (int i = 0; i < 6; ++i) fields >> other;  // errors and similar counts
    fields >> counters.sent_bytes >> counters.sent_packets;
    return counters;
  }
  throw std::runtime_error("host " + std::to_string(host) + " has no interface any more");
}

}  // namespace gradwire::lab
