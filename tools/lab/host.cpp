#include "lab/host.h"

#include <sched.h>

#include <algorithm>

namespace gradwire::lab {

std::string host_name(int host) { return kHostTitle + std::to_string(host); }

std::string host_address(int host) { return "10.77.0." + std::to_string(host + 1); }

std::string hosts_file(int hosts) {
  std::string text = "127.0.0.1 localhost\n::1 localhost\n";
  for (int host = 0; host < hosts; ++host) {
    text += host_address(host) + ' ' + host_name(host) + '\n';
    // torch asks for the names of IPv4 addresses in the form that IPv6 sockets give them.
    text += "::ffff:" + host_address(host) + ' ' + host_name(host) + ".lab\n";
  }
  return text;
}

std::map<std::string, std::string> worker_environment(int host, int hosts, int threads) {
  const std::string number = std::to_string(host);
  const std::string world = std::to_string(hosts);
  return {
      {"RANK", number},
      {"WORLD_SIZE", world},
      {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "1"},
      {"GROUP_RANK", number},
      {"GROUP_WORLD_SIZE", world},
      {"MASTER_ADDR", host_address(0)},
      {"MASTER_PORT", "29500"},  // is free, because the network is new
      {"OMP_NUM_THREADS", std::to_string(threads)},
      {"GLOO_SOCKET_IFNAME", kInterface},
      {"NCCL_SOCKET_IFNAME", kInterface},
      {"TP_SOCKET_IFNAME", kInterface},
      {"UCX_NET_DEVICES", kInterface},
      {"OMPI_MCA_btl_tcp_if_include", kInterface},
      {"OMPI_MCA_oob_tcp_if_include", kInterface},
  };
}

bool cores_suffice(int hosts, int threads, const std::vector<int>& available) {
  return static_cast<size_t>(hosts) * static_cast<size_t>(threads) <= available.size();
}

std::vector<int> cores_of(int host, int threads, const std::vector<int>& available) {
  const size_t count = std::min(static_cast<size_t>(threads), available.size());
  std::vector<int> cores;
  for (size_t i = 0; i < count; ++i) {
    cores.push_back(available[(static_cast<size_t>(host) * count + i) % available.size()]);
  }
  return cores;
}

std::vector<int> available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace gradwire::lab
