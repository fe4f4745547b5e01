#pragma once

#include <stdexcept>

#include "gradwire/export.h"

namespace gradwire {

// The caller's own mistake is a std::invalid_argument. This is the other kind: a peer, the network
// or the surroundings are not as they must be.
class GRADWIRE_EXPORT PeerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gradwire
