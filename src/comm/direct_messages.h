#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace gradwire {

// All-to-alls, and all-gathers between two workers, as messages from worker to worker, for gloo.
//
// Why not gloo's own: there a worker begins to send before it says that it is ready to receive. On
// a worker that comes later than the other, what it sends is in the way of that word, so large
// messages travel in one direction after the other: at half of the bandwidth. An all-gather among
// more is a ring, in which a worker receives from another one than it sends to.
bool gathers_directly(c10d::ProcessGroup& group, const at::Tensor& send);
bool swaps_directly(c10d::ProcessGroup& group, const at::Tensor& send);

c10::intrusive_ptr<c10d::Work> gather_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                               const at::Tensor& send);
// In equal parts.
c10::intrusive_ptr<c10d::Work> swap_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                             const at::Tensor& send);

}  // namespace gradwire
