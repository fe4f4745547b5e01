#include "ddp/plain_group.h"

#include "comm/without_python_objects.h"

namespace gradwire {

PlainGroup::PlainGroup(std::shared_ptr<Engine> engine, int64_t elements)
    : c10d::ProcessGroup(engine->group()->getRank(), engine->group()->getSize()),
      engine_(std::move(engine)),
      elements_of_step_(elements) {}

c10::intrusive_ptr<c10d::Work> PlainGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  // Gradients are floating-point; the Reducer's map of used parameters is not.
  if (tensors.front().is_floating_point() || tensors.front().is_complex()) {
    engine_->count_plain(begins_step(tensors.front()), tensors.front());
  }
  const WithoutPythonObjects guard;
  return engine_->group()->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> PlainGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  return engine_->group()->broadcast(tensors, options);
}

// When all gradients of the step before have come by, or one comes again: buckets may be left out
// (skip_all_reduce_unused_params), and a backward may be cut short. The autograd graph would not
// do: a checkpointed segment is a graph of its own, and a worker that has run out of data (DDP's
// join) has none.
bool PlainGroup::begins_step(const at::Tensor& buffer) {
  const void* memory = buffer.is_sparse() ? nullptr : buffer.const_data_ptr();
  const bool comes_again = memory != nullptr && !seen_.insert(memory).second;
  if (comes_again || elements_so_far_ == elements_of_step_) {
    elements_so_far_ = 0;
    seen_ = {memory};
  }
  const bool begins = elements_so_far_ == 0;
  elements_so_far_ += buffer.numel();
  return begins;
}

}  // namespace gradwire
