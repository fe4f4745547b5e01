#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace gradwire {

// All-to-alls, and all-gathers between two workers, as messages from worker to worker, for gloo.
//
// Why not gloo's own collectives: a worker there begins to send before it announces that it is
// ready to receive. If it comes later than the other worker, its announcement queues behind its own
// data, and large messages travel in one direction after the other, at half of the bandwidth. An
// all-gather among more than two workers is a ring, in which each receives from one worker and
// sends to another: it does not have this problem.
bool gathers_directly(c10d::ProcessGroup& group, const at::Tensor& send);
bool swaps_directly(c10d::ProcessGroup& group, const at::Tensor& send);

c10::intrusive_ptr<c10d::Work> gather_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                               const at::Tensor& send);
// Every worker gets an equal share.
c10::intrusive_ptr<c10d::Work> swap_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                             const at::Tensor& send);

}  // namespace gradwire
