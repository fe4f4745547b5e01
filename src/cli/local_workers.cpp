#include "cli/local_workers.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "lab/process.h"

namespace gradwire {
namespace {

constexpr int kCannotRun = 126;  // as shells have it

// Free now; nothing keeps another process from taking it before worker 0 does.
int free_port() {
  const lab::Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, size) != 0) lab::throw_errno("bind");
  if (getsockname(listener.get(), generic, &size) != 0) lab::throw_errno("getsockname");
  return ntohs(address.sin_port);
}

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string argument; std::getline(file, argument, '\0');) command.push_back(argument);
  command.front() = "/proc/self/exe";
  return command;
}

[[noreturn]] void become_worker(int worker, int workers, int port, pid_t parent) {
  // A world whose starter was killed must not live on.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);
  setenv("RANK", std::to_string(worker).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(worker).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(workers).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  setenv("GLOO_SOCKET_IFNAME", "lo", 0);
  lab::execute(own_command_line());
  _exit(kCannotRun);
}

int status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

bool was_launched() {
  const auto names = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
  return std::ranges::any_of(names, [](const char* name) { return std::getenv(name) != nullptr; });
}

int run_local_workers(int workers) {
  const int port = free_port();
  const pid_t parent = getpid();
  std::vector<pid_t> processes;
  for (int worker = 0; worker < workers; ++worker) {
    const pid_t child = fork();
    if (child < 0) lab::throw_errno("fork");
    if (child == 0) become_worker(worker, workers, port, parent);
    processes.push_back(child);
  }
  int first_failure = 0;
  while (!processes.empty()) {
    int wait_status = 0;
    const pid_t ended = wait(&wait_status);
    if (ended < 0) {
      if (errno == EINTR) continue;
      lab::throw_errno("wait");
    }
    std::erase(processes, ended);
    if (wait_status == 0 || first_failure != 0) continue;
    first_failure = status_of(wait_status);
    for (const pid_t process : processes) kill(process, SIGTERM);
  }
  return first_failure;
}

}  // namespace gradwire
