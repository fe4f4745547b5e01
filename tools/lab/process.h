#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradwire::lab {

// A descriptor that is closed with its owner, and not handed to programs.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int get() const { return number_; }

 private:
  int number_;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};
Pipe make_pipe();

// std::system_error of errno.
[[noreturn]] void throw_errno(const std::string& what);

// Where a shell would find the program.
std::optional<std::string> find_program(const std::string& name);

// Replaces this process; returns when that is impossible.
void execute(const std::vector<std::string>& command);

// Runs `ip` or `tc` and waits for its end. Throws with what it wrote to stderr when it fails.
void run_iproute(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace gradwire::lab
