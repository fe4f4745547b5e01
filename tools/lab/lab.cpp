#include "lab/lab.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>
#include <stdexcept>

#include "lab/host.h"
#include "lab/namespaces.h"
#include "lab/process.h"

namespace gradwire::lab {
namespace {

void pin_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Ends this process with its parent. It is the init of a process namespace, so the kernel then also
// kills everything in the namespace. The parent holds the other end of `lifeline`.
void die_with_parent(const Descriptor& lifeline) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above; then the pipe is closed.
  pollfd parent = {.fd = lifeline.get(), .events = 0, .revents = 0};
  if (poll(&parent, 1, 0) > 0) _exit(1);
}

// All that the init does. It sends the endings to its parent through `results`.
void supervise(const Settings& settings, const Network& network, const Descriptor& results) {
  // A terminal's signals shall reach the parent only, which passes them on, so that each worker
  // gets them once.
  setsid();
  const std::vector<int> available = available_cores();
  const std::string names = hosts_file(settings.hosts);
  const auto prepare = [&](int host) {
    network.host(host).enter();
    settle_in(host_name(host), names);
    pin_to(cores_of(host, settings.threads, available));
    for (const auto& [name, value] : worker_environment(host, settings.hosts, settings.threads)) {
      setenv(name.c_str(), value.c_str(), 1);
    }
  };
  Workers workers({.count = settings.hosts,
                   .command = settings.command,
                   .title = kHostTitle,
                   .seconds_after_failure = settings.grace_seconds,
                   .seconds_after_signal = settings.grace_seconds,
                   .prepare = prepare});
  const std::vector<Ending> endings = workers.wait();
  const size_t bytes = endings.size() * sizeof(Ending);
  if (write(results.get(), endings.data(), bytes) != static_cast<ssize_t>(bytes)) _exit(1);
}

// Passes signals on to the supervisor until it has ended.
void wait_for(pid_t supervisor) {
  const sigset_t watched = watched_signals();
  for (;;) {
    const int signal = sigwaitinfo(&watched, nullptr);
    if (signal > 0 && signal != SIGCHLD) kill(supervisor, signal);
    if (waitpid(supervisor, nullptr, WNOHANG) == supervisor) return;
  }
}

std::vector<Ending> run_workers(const Settings& settings, const Network& network) {
  Pipe lifeline = make_pipe();
  Pipe results = make_pipe();
  block_watched_signals();
  begin_process_namespace();
  std::cout.flush();
  const pid_t supervisor = fork();
  if (supervisor < 0) throw_errno("fork");
  if (supervisor == 0) {
    lifeline.write = Descriptor();
    die_with_parent(lifeline.read);
    try {
      supervise(settings, network, results.write);
    } catch (const std::exception& error) {
      std::cerr << "gradwire: " << error.what() << std::endl;
      _exit(1);
    }
    _exit(0);
  }
  wait_for(supervisor);
  std::vector<Ending> endings(static_cast<size_t>(settings.hosts));
  const size_t bytes = endings.size() * sizeof(Ending);
  results.write = Descriptor();
  if (read(results.read.get(), endings.data(), bytes) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("the supervisor of the workers ended early");
  }
  return endings;
}

}  // namespace

Result run(const Settings& settings) {
  Settings found = settings;
  const auto program = find_program(settings.command.at(0));
  if (!program) throw std::runtime_error("there is no program \"" + settings.command[0] + "\"");
  found.command[0] = *program;

  const std::vector<int> available = available_cores();
  leave_machine_network();
  const Network network(settings.hosts, settings.link);
  if (!cores_suffice(settings.hosts, settings.threads, available)) {
    std::cerr << "gradwire: " << settings.hosts << " hosts of " << settings.threads
              << " thread(s) share " << available.size()
              << " core(s), so they slow one another down\n";
  }

  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Ending> endings = run_workers(found, network);
  Result result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.status = worst_status(endings);
  for (int host = 0; host < settings.hosts; ++host) {
    result.hosts.push_back({.ending = endings[static_cast<size_t>(host)],
                            .counters = network.counters(host),
                            .cores = cores_of(host, settings.threads, available)});
  }
  return result;
}

}  // namespace gradwire::lab
