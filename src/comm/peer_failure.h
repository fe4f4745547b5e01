#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "gradwire/errors.h"

namespace gradwire {

inline PeerError peer_failure(int64_t step, const std::string& cause) {
  return PeerError(
      "gradwire: in step " + std::to_string(step) +
      " the exchange of gradients with the other workers failed; one of them has "
      "probably ended or lost its connection. The gradients of this step are not "
      "complete: start all workers again from the last checkpoint. The backend says: " +
      cause);
}

// Calls a function that only communicates, and turns its failure into a PeerError: what a backend
// says when a worker is gone ("Connection closed by peer") tells a user little.
template <typename Function>
auto with_other_workers(int64_t step, const Function& function) {
  try {
    return function();
  } catch (const c10::Error& error) {
    throw peer_failure(step, error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw peer_failure(step, error.what());
  }
}

}  // namespace gradwire
