#include "ddp/plain_group.h"

namespace gradwire {

PlainGroup::PlainGroup(std::shared_ptr<Pipeline> pipeline, int64_t elements)
    : c10d::ProcessGroup(pipeline->group()->getRank(), pipeline->group()->getSize()),
      pipeline_(std::move(pipeline)),
      elements_of_step_(elements) {}

c10::intrusive_ptr<c10d::Work> PlainGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  // Gradients are floating-point; the Reducer's map of used parameters is not.
  if (tensors.front().is_floating_point() || tensors.front().is_complex()) {
    pipeline_->count_plain(begins_step(tensors.front().numel()), tensors.front());
  }
  return pipeline_->group()->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> PlainGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  return pipeline_->group()->broadcast(tensors, options);
}

// When all gradients of the step before have come by. The autograd graph would not do: a
// checkpointed segment is a graph of its own, and a worker that has run out of data (DDP's join)
// has none.
bool PlainGroup::begins_step(int64_t elements) {
  const bool begins = elements_so_far_ == 0;
  elements_so_far_ = (elements_so_far_ + elements) % elements_of_step_;
  return begins;
}

}  // namespace gradwire
