#include "ddp/plain_group.h"

#include <torch/csrc/autograd/graph_task.h>

namespace gradwire {

PlainGroup::PlainGroup(std::shared_ptr<Pipeline> pipeline)
    : c10d::ProcessGroup(pipeline->group()->getRank(), pipeline->group()->getSize()),
      pipeline_(std::move(pipeline)) {}

c10::intrusive_ptr<c10d::Work> PlainGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  // Gradients are floating-point; the Reducer's map of used parameters is not.
  if (tensors.front().is_floating_point() || tensors.front().is_complex()) {
    pipeline_->count_plain(begins_step(), tensors.front());
  }
  return pipeline_->group()->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> PlainGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  return pipeline_->group()->broadcast(tensors, options);
}

bool PlainGroup::begins_step() {
  const int backward = torch::autograd::get_current_graph_task_id();
  return std::exchange(last_backward_, backward) != backward;
}

}  // namespace gradwire
