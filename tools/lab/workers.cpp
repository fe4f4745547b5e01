#include "lab/workers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <exception>
#include <iostream>

#include "lab/host.h"

namespace gradwire::lab {
namespace {

constexpr int kCannotRun = 126;  // as shells have it
constexpr pid_t kEveryone = -1;  // in the process namespace, but for its init
constexpr pid_t kEnded = 0;      // in place of a process that is no more

void write_all(int descriptor, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return;  // nobody reads; the workers go on
    if (count > 0) done += static_cast<size_t>(count);
  }
}

int status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

int worst_status(const std::vector<Ending>& endings) {
  int worst = 0;
  for (const Ending& ending : endings) {
    if (!ending.ended_by_lab) worst = std::max(worst, ending.status);
  }
  return worst;
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

Workers::Workers(int count, const std::vector<std::string>& command, double grace_seconds,
                 const std::function<void(int)>& prepare)
    : endings_(static_cast<size_t>(count)), grace_(grace_seconds) {
  const sigset_t watched = watched_signals();
  signals_ = Descriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals_.get() < 0) throw_errno("signalfd");
  for (int number = 0; number < count; ++number) start(number, command, prepare);
}

void Workers::start(int number, const std::vector<std::string>& command,
                    const std::function<void(int)>& prepare) {
  const std::array<int, 2> outputs = {STDOUT_FILENO, STDERR_FILENO};
  std::vector<Pipe> pipes;
  for (size_t i = 0; number > 0 && i < outputs.size(); ++i) pipes.push_back(make_pipe());

  const pid_t child = fork();
  if (child < 0) throw_errno("fork");
  if (child == 0) {
    for (size_t i = 0; i < pipes.size(); ++i) dup2(pipes[i].write.get(), outputs[i]);
    // One input cannot be shared by several.
    dup2(Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)).get(), STDIN_FILENO);
    try {
      prepare(number);
      const sigset_t watched = watched_signals();
      sigprocmask(SIG_UNBLOCK, &watched, nullptr);
      execute(command);
      throw_errno(command.front());
    } catch (const std::exception& error) {
      write_all(STDERR_FILENO, std::string("gradwire: cannot run: ") + error.what() + '\n');
    }
    _exit(kCannotRun);
  }
  processes_.push_back(child);
  ++running_;
  for (size_t i = 0; i < pipes.size(); ++i) {
    fcntl(pipes[i].read.get(), F_SETFL, O_NONBLOCK);
    relays_.push_back({.from = std::move(pipes[i].read),
                       .to = outputs[i],
                       .prefix = '[' + host_name(number) + "] ",
                       .partial_line = ""});
  }
}

std::vector<Ending> Workers::wait() {
  while (running_ > 0) poll_once();
  // What a worker's own children still write is not waited for.
  for (Relay& relay : relays_) {
    pass_on(relay);
    if (!relay.partial_line.empty()) write_all(relay.to, relay.prefix + relay.partial_line + '\n');
  }
  return endings_;
}

void Workers::poll_once() {
  std::vector<pollfd> polled = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  for (const Relay& relay : relays_) {
    polled.push_back({.fd = relay.from.get(), .events = POLLIN, .revents = 0});
  }
  if (poll(polled.data(), polled.size(), milliseconds_to_deadline()) < 0) return;
  for (size_t i = 0; i < relays_.size(); ++i) {
    // A closed pipe would wake poll for ever; a descriptor below zero is passed over.
    if (polled[i + 1].revents != 0 && pass_on(relays_[i]) == PollOutcome::ended) {
      relays_[i].from = Descriptor();
    }
  }
  signalfd_siginfo signal{};
  while (read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    on_signal(static_cast<int>(signal.ssi_signo));
  }
  if (deadline_ && Clock::now() >= *deadline_) on_deadline();
}

Workers::PollOutcome Workers::pass_on(Relay& relay) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = read(relay.from.get(), buffer.data(), buffer.size());
    if (count == 0) return PollOutcome::ended;
    if (count < 0) return PollOutcome::more;
    relay.partial_line.append(buffer.data(), static_cast<size_t>(count));
    std::string complete;
    size_t begin = 0;
    for (size_t end; (end = relay.partial_line.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      complete += relay.prefix + relay.partial_line.substr(begin, end + 1 - begin);
    }
    relay.partial_line.erase(0, begin);
    write_all(relay.to, complete);
  }
}

void Workers::on_signal(int signal) {
  if (signal == SIGCHLD) {
    collect_endings();
    return;
  }
  // Asked a second time, it is meant.
  kill(kEveryone, interrupted_ ? SIGKILL : signal);
  interrupted_ = true;
  signal_at_deadline_ = SIGKILL;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace_);
}

void Workers::collect_endings() {
  int wait_status = 0;
  for (pid_t child; (child = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    const auto found = std::ranges::find(processes_, child);
    if (found == processes_.end()) continue;  // left behind by a worker
    const auto number = static_cast<size_t>(found - processes_.begin());
    *found = kEnded;
    endings_[number].status = status_of(wait_status);
    --running_;
    if (endings_[number].status != 0 && running_ > 0) on_failure(static_cast<int>(number));
  }
}

void Workers::on_failure(int number) {
  if (failed_first_ || interrupted_) return;
  failed_first_ = number;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace_);
}

void Workers::on_deadline() {
  kill(kEveryone, signal_at_deadline_);
  deadline_.reset();
  if (signal_at_deadline_ == SIGKILL) return;
  std::cerr << "gradwire: " << host_name(*failed_first_) << " has ended with status "
            << endings_[static_cast<size_t>(*failed_first_)].status << "; ending the others\n";
  for (size_t number = 0; number < processes_.size(); ++number) {
    endings_[number].ended_by_lab = processes_[number] != kEnded;
  }
  signal_at_deadline_ = SIGKILL;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace_);
}

int Workers::milliseconds_to_deadline() const {
  if (!deadline_) return -1;
  const std::chrono::duration<double, std::milli> left = *deadline_ - Clock::now();
  return std::max(0, static_cast<int>(std::ceil(left.count())));
}

}  // namespace gradwire::lab
