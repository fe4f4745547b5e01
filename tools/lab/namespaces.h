#pragma once

#include <string>

#include "lab/process.h"

namespace gradwire::lab {

// Namespaces here have no names: each lives as long as a process or a descriptor refers to it, so
// the kernel removes them with everything in them however the processes end.

// Moves this process into a network namespace of its own; where it may not, also into a user
// namespace in which it may (with the same user and group). Throws where the system allows neither.
void leave_machine_network();

// Makes every child of this process from now on live in a new process namespace, whose first child
// is its init: when that one ends, the kernel kills all others.
void begin_process_namespace();

class NetworkNamespace {
 public:
  static NetworkNamespace current();
  static NetworkNamespace create();  // the caller stays where it is

  void enter() const;
  // A second handle, which programs inherit while it lives: /proc/self/fd/N is what they call it.
  Descriptor inheritable_handle() const;

 private:
  explicit NetworkNamespace(Descriptor handle) : handle_(std::move(handle)) {}
  Descriptor handle_;
};

// This thread is in the namespace while the object lives.
class Visit {
 public:
  explicit Visit(const NetworkNamespace& there) : home_(NetworkNamespace::current()) {
    there.enter();
  }
  ~Visit() { home_.enter(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  NetworkNamespace home_;
};

// For a worker, before it runs its program: a hostname, /etc/hosts, /proc and /sys that belong to
// the host it is on, and no privilege over the network.
void settle_in(const std::string& hostname, const std::string& hosts_file);

}  // namespace gradwire::lab
