#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradwire::lab {

// A file descriptor that is closed when this object is destroyed.
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

// Throws a std::system_error for errno.
[[noreturn]] void throw_errno(const std::string& what);

// The path at which a shell would find the program.
std::optional<std::string> find_program(const std::string& name);

// Replaces this process by the program. Returns only if that fails.
void execute(const std::vector<std::string>& command);

// Runs `ip` or `tc` and waits for it. If it fails, throws what it wrote to stderr.
void run_iproute(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace gradwire::lab
