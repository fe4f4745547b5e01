#pragma once

#include <map>
#include <string>
#include <vector>

namespace gradwire::lab {

constexpr int kMostHosts = 250;  // a /24 of addresses
constexpr const char* kInterface = "lab0";

// What is the same on every run for host number `host`, counted from 0.
std::string host_name(int host);
std::string host_address(int host);
std::string hosts_file(int hosts);  // /etc/hosts, so that names resolve without a name server

// The variables a worker is started with, beside those it inherits: torchrun's, and those that tell
// communication libraries which interface to use.
std::map<std::string, std::string> worker_environment(int host, int hosts, int threads);

// The cores of host number `host`: its own where there are enough for all, else shared in turn.
bool cores_suffice(int hosts, int threads, const std::vector<int>& available);
std::vector<int> cores_of(int host, int threads, const std::vector<int>& available);
std::vector<int> available_cores();

}  // namespace gradwire::lab
