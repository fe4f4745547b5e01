#include "cli/local_workers.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lab/workers.h"

namespace gradwire {
namespace {

constexpr double kSecondsAfterFailure = 10;

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

}  // namespace

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  arguments.at(0) = std::filesystem::read_symlink("/proc/self/exe").string();
  return arguments;
}

bool was_launched() {
  return std::ranges::any_of(std::vector{"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"},
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

int run_local_workers(int workers, int threads) {
  lab::block_watched_signals();
  // The store is in this process, on a port that the system chooses, so no two worlds collide.
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const pid_t parent = ::getpid();
  const auto prepare = [&](int worker) {
    set("RANK", std::to_string(worker));
    set("LOCAL_RANK", std::to_string(worker));
    set("WORLD_SIZE", std::to_string(workers));
    set("TORCHELASTIC_USE_AGENT_STORE", "True");
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", std::to_string(store->getPort()));
    set("OMP_NUM_THREADS", std::to_string(threads));
    // gloo would ask for the address of the machine's name, which not every machine can resolve.
    set("GLOO_SOCKET_IFNAME", "lo");
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);     // no worker outlives this process
    if (::getppid() != parent) ::_exit(1);  // it has ended already
  };
  // A worker that was asked to stop may take long to save a checkpoint.
  lab::Workers started({.count = workers,
                        .command = own_command(),
                        .title = "worker",
                        .seconds_after_failure = kSecondsAfterFailure,
                        .seconds_after_signal = std::nullopt,
                        .prepare = prepare});
  return lab::worst_status(started.wait());
}

}  // namespace gradwire
