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

namespace gradwire::lab {
namespace {

constexpr int kCannotRun = 126;  // the status that shells use
constexpr pid_t kEnded = 0;      // stands for a process that has ended
constexpr std::array<int, 2> kOutputs = {STDOUT_FILENO, STDERR_FILENO};

void write_all(int descriptor, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return;  // nobody reads any more; the workers go on
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
    if (!ending.was_stopped) worst = std::max(worst, ending.status);
  }
  return worst;
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

void block_watched_signals() {
  // A parent may have left SIGCHLD ignored, and then no child's end would be reported.
  std::signal(SIGCHLD, SIG_DFL);
  const sigset_t watched = watched_signals();
  sigprocmask(SIG_BLOCK, &watched, nullptr);
}

Workers::Workers(WorkerSettings settings)
    : settings_(std::move(settings)), endings_(static_cast<size_t>(settings_.count)) {
  const sigset_t watched = watched_signals();
  signals_ = Descriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals_.get() < 0) throw_errno("signalfd");
  for (int number = 0; number < settings_.count; ++number) start(number);
}

void Workers::start(int number) {
  std::vector<Pipe> pipes;
  for (size_t i = 0; number > 0 && i < kOutputs.size(); ++i) pipes.push_back(make_pipe());
  const pid_t child = fork();
  if (child == 0) become_worker(number, pipes);
  if (child < 0) {
    signal_all(SIGKILL);
    throw_errno("fork");
  }
  // The worker does the same: whoever comes first, no signal comes before.
  setpgid(child, child);
  processes_.push_back(child);
  ++running_;
  for (size_t i = 0; i < pipes.size(); ++i) {
    fcntl(pipes[i].read.get(), F_SETFL, O_NONBLOCK);
    relays_.push_back({.from = std::move(pipes[i].read),
                       .to = kOutputs[i],
                       .prefix = '[' + name_of(number) + "] ",
                       .partial_line = ""});
  }
}

void Workers::become_worker(int number, const std::vector<Pipe>& pipes) const {
  setpgid(0, 0);
  for (size_t i = 0; i < pipes.size(); ++i) dup2(pipes[i].write.get(), kOutputs[i]);
  // Several workers cannot share one input.
  dup2(Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)).get(), STDIN_FILENO);
  try {
    settings_.prepare(number);
    const sigset_t watched = watched_signals();
    sigprocmask(SIG_UNBLOCK, &watched, nullptr);
    execute(settings_.command);
    throw_errno(settings_.command.front());
  } catch (const std::exception& error) {
    write_all(STDERR_FILENO, std::string("gradwire: cannot run: ") + error.what() + '\n');
  }
  _exit(kCannotRun);
}

std::vector<Ending> Workers::wait() {
  while (running_ > 0) poll_once();
  // Children of workers may still write; nobody waits for that.
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
    // A closed pipe would wake poll again and again. poll passes over descriptors below zero.
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
  // Whoever asks a second time does not want to wait.
  signal_all(interrupted_ ? SIGKILL : signal);
  interrupted_ = true;
  signal_at_deadline_ = SIGKILL;
  if (settings_.seconds_after_signal) set_deadline(*settings_.seconds_after_signal);
}

void Workers::collect_endings() {
  int wait_status = 0;
  for (pid_t child; (child = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    const auto found = std::ranges::find(processes_, child);
    if (found == processes_.end()) continue;  // a worker left this child behind
    const auto number = static_cast<size_t>(found - processes_.begin());
    *found = kEnded;
    endings_[number].status = status_of(wait_status);
    --running_;
    if (endings_[number].status != 0 && running_ > 0) on_failure(static_cast<int>(number));
  }
}

void Workers::on_failure(int number) {
  if (failed_first_) return;
  failed_first_ = number;
  if (!deadline_) set_deadline(settings_.seconds_after_failure);
}

void Workers::on_deadline() {
  signal_all(signal_at_deadline_);
  deadline_.reset();
  if (signal_at_deadline_ == SIGKILL) return;
  std::cerr << "gradwire: " << name_of(*failed_first_) << " has ended with status "
            << endings_[static_cast<size_t>(*failed_first_)].status << "; ending the others\n";
  for (size_t number = 0; number < processes_.size(); ++number) {
    endings_[number].was_stopped = processes_[number] != kEnded;
  }
  signal_at_deadline_ = SIGKILL;
  set_deadline(settings_.seconds_after_failure);
}

void Workers::signal_all(int signal) const {
  for (const pid_t process : processes_) {
    if (process != kEnded) kill(-process, signal);
  }
}

void Workers::set_deadline(double seconds) {
  const std::chrono::duration<double> left(seconds);
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
}

int Workers::milliseconds_to_deadline() const {
  if (!deadline_) return -1;
  const std::chrono::duration<double, std::milli> left = *deadline_ - Clock::now();
  return std::max(0, static_cast<int>(std::ceil(left.count())));
}

}  // namespace gradwire::lab
