#pragma once

#include <string>

#include "lab/process.h"

namespace gradwire::lab {

// The lab's namespaces have no names. Each lives as long as a process or a descriptor refers to it,
// so the kernel removes it, with everything in it, however the processes end.

// Moves this process into a network namespace of its own. If the user may not make one, the process
// also moves into a user namespace, with the same user and group. Throws if the system allows
// neither.
void leave_machine_network();

// From now on, children of this process live in a new process namespace. The first child is its
// init: when that one ends, the kernel kills all others.
void begin_process_namespace();

class NetworkNamespace {
 public:
  static NetworkNamespace current();
  static NetworkNamespace create();  // does not enter it

  void enter() const;
  // A second handle that programs inherit. They can name it /proc/self/fd/N.
  Descriptor inheritable_handle() const;

 private:
  explicit NetworkNamespace(Descriptor handle) : handle_(std::move(handle)) {}
  Descriptor handle_;
};

// This thread is in the namespace as long as the object lives.
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

// A worker calls this before it runs its program. Afterwards its hostname, /etc/hosts, /proc and
// /sys are those of its host, and it has no privileges over the network.
void settle_in(const std::string& hostname, const std::string& hosts_file);

}  // namespace gradwire::lab
