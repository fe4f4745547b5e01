#include "cli/local_workers.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace gradwire {
namespace {

constexpr std::chrono::seconds kGrace(10);  // for the others after one has failed

volatile std::sig_atomic_t signals_seen = 0;

void count_signal(int /*signal*/) { signals_seen = signals_seen + 1; }

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

// In the new process; does not return.
[[noreturn]] void become_worker(int worker, pid_t parent, std::vector<char*>& command) {
  set("RANK", std::to_string(worker));
  set("LOCAL_RANK", std::to_string(worker));
  ::setpgid(0, 0);                     // a terminal's Ctrl-C is for the parent to pass on
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody is left behind if the parent is killed
  if (::getppid() != parent) ::_exit(1);
  ::execv("/proc/self/exe", command.data());
  ::_exit(127);
}

int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

class Workers {
 public:
  void start(int count, const std::vector<std::string>& command) {
    std::vector<char*> arguments;
    for (const std::string& argument : command)
      arguments.push_back(const_cast<char*>(argument.data()));
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid();
    for (int worker = 0; worker < count; ++worker) {
      const pid_t process = ::fork();
      if (process == 0) become_worker(worker, parent, arguments);
      if (process < 0) {
        signal_all(SIGKILL);
        throw std::runtime_error("cannot start another process");
      }
      processes_.push_back(process);
    }
  }

  // The first failure is the one that tells; what the others say follows from it.
  int wait() {
    int passed_on = 0;
    while (std::ranges::any_of(processes_, [](pid_t p) { return p > 0; })) {
      reap();
      if (signals_seen > passed_on) {
        passed_on = signals_seen;
        if (passed_on == 1 && processes_[0] > 0) {
          ::kill(processes_[0], SIGINT);
        } else {
          signal_all(SIGKILL);
        }
      }
      if (status_ != 0 && std::chrono::steady_clock::now() > deadline_) signal_all(SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return status_;
  }

 private:
  void reap() {
    for (pid_t& process : processes_) {
      int wait_status = 0;
      if (process <= 0 || ::waitpid(process, &wait_status, WNOHANG) != process) continue;
      process = 0;
      if (status_ == 0 && status_of(wait_status) != 0) {
        status_ = status_of(wait_status);
        deadline_ = std::chrono::steady_clock::now() + kGrace;
      }
    }
  }
  void signal_all(int signal) {
    for (const pid_t process : processes_) {
      if (process > 0) ::kill(process, signal);
    }
  }

  std::vector<pid_t> processes_;
  int status_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

bool was_launched() {
  return std::ranges::any_of(std::vector{"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"},
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

int run_local_workers(int workers, int threads) {
  // Hosted here, on a port that the system chooses: no two worlds can take the same.
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(store->getPort()));
  set("WORLD_SIZE", std::to_string(workers));
  set("OMP_NUM_THREADS", std::to_string(threads));
  // Not every machine can resolve its own name, and all workers are here anyway.
  set("GLOO_SOCKET_IFNAME", "lo");
  std::signal(SIGINT, count_signal);
  std::signal(SIGTERM, count_signal);
  Workers started;
  started.start(workers, own_command());
  return started.wait();
}

}  // namespace gradwire
