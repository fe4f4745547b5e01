#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace gradwire {

// All-gather and all-to-all as messages from every worker to every other, for gloo.
//
// Why not gloo's own: there a worker begins to send before it says that it is ready to receive. On
// a worker that comes later than the other, what it sends is in the way of that word, so large
// messages travel in one direction after the other: at half of the bandwidth.
bool has_direct_exchange(c10d::ProcessGroup& group, const at::Tensor& tensor);

c10::intrusive_ptr<c10d::Work> gather_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                               const at::Tensor& send);
// In equal parts.
c10::intrusive_ptr<c10d::Work> swap_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                             const at::Tensor& send);

}  // namespace gradwire
