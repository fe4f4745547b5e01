#pragma once

#include <map>
#include <string>
#include <vector>

namespace gradwire::lab {

constexpr int kMostHosts = 250;  // a /24 of addresses
constexpr const char* kInterface = "lab0";
constexpr const char* kHostTitle = "host";

// Hosts are counted from 0. These are the same in every run.
std::string host_name(int host);
std::string host_address(int host);
std::string hosts_file(int hosts);  // for /etc/hosts, as there is no name server

// The variables that a worker gets besides those it inherits: the ones that torchrun sets, and
// those that tell communication libraries which interface to use.
std::map<std::string, std::string> worker_environment(int host, int hosts, int threads);

// Each host has cores of its own where there are enough for all. Otherwise hosts share them in
// turn.
bool cores_suffice(int hosts, int threads, const std::vector<int>& available);
std::vector<int> cores_of(int host, int threads, const std::vector<int>& available);
std::vector<int> available_cores();

}  // namespace gradwire::lab
