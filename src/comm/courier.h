#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>

#include "comm/later_rounds.h"
#include "comm/transfer.h"
#include "gradwire/process_group.h"

namespace gradwire {

// Takes exchanges through their rounds. The first round of each is launched at once, on the
// caller's group; later ones follow in the same order on every worker (see LaterRounds).
class Courier {
 public:
  // Makes the further groups that exchanges of so many rounds need. Collective.
  Courier(c10::intrusive_ptr<c10d::ProcessGroup> group, const MakeGroup& make_group, int rounds);

  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  // Encodes and launches. `rounds`: the most that the exchange makes.
  std::shared_ptr<Transfer> start(std::unique_ptr<Exchange> exchange, int rounds, int64_t step);
  // Waits until the last round is complete, then decodes.
  static void finish(Transfer& transfer);

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::unique_ptr<LaterRounds> later_rounds_;
};

}  // namespace gradwire
