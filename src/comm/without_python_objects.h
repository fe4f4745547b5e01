#pragma once

#include <ATen/ThreadLocalPythonObjects.h>

#include <utility>

namespace gradwire {

// Hides what Python has put into this thread's state. A collective of gloo keeps a copy of that
// state and drops it on one of gloo's threads, perhaps while the interpreter is shutting down.
// Asking for the interpreter's lock at that time ends the process.
class WithoutPythonObjects {
 public:
  WithoutPythonObjects() : hidden_(at::impl::ThreadLocalPythonObjects::get_state()) {
    at::impl::ThreadLocalPythonObjects::set_state({});
  }
  ~WithoutPythonObjects() { at::impl::ThreadLocalPythonObjects::set_state(std::move(hidden_)); }
  WithoutPythonObjects(const WithoutPythonObjects&) = delete;
  WithoutPythonObjects& operator=(const WithoutPythonObjects&) = delete;

 private:
  at::impl::ThreadLocalPythonObjects hidden_;
};

}  // namespace gradwire
