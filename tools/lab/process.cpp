#include "lab/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace gradwire::lab {
namespace {

std::string read_to_end(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

std::string joined(const std::string& program, const std::vector<std::string>& arguments) {
  std::string text = program;
  for (const std::string& argument : arguments) text += ' ' + argument;
  return text;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  // `ip` and `tc` are in /usr/sbin, which a user's PATH often lacks.
  std::stringstream folders(std::string(path == nullptr ? "/usr/bin:/bin" : path) +
                            ":/usr/sbin:/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

void execute(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
}

void run_iproute(const std::string& program, const std::vector<std::string>& arguments) {
  const auto path = find_program(program);
  if (!path) {
    throw std::runtime_error("the program `" + program + "` is missing; install iproute2");
  }
  Pipe errors = make_pipe();
  const pid_t child = fork();
  if (child < 0) throw_errno("fork");
  if (child == 0) {
    dup2(errors.write.get(), STDERR_FILENO);
    std::vector<std::string> command = {*path};
    command.insert(command.end(), arguments.begin(), arguments.end());
    execute(command);
    _exit(127);
  }
  errors.write = Descriptor();
  std::string text = read_to_end(errors.read.get());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  throw std::runtime_error("`" + joined(program, arguments) + "` failed: " + text);
}

}  // namespace gradwire::lab
