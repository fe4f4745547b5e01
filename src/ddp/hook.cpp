#include "ddp/hook.h"

#include <torch/csrc/autograd/graph_task.h>

namespace gradwire {
namespace {

// A worker that has run out of data (DDP's join) calls the hook outside of any backward.
bool has_joined() { return torch::autograd::get_current_graph_task_id() == -1; }

}  // namespace

// The future is complete at once and carries a ticket: the waiting is done in parseHookResult, on
// the thread that would wait for the future anyway. So nothing ever runs in a callback on the
// backend's own threads, which are few and needed for the collectives still to come.
c10::intrusive_ptr<c10::ivalue::Future> Hook::runHook(c10d::GradBucket& bucket) {
  if (bucket.getIndex() == 0) under_way_.clear();  // of a backward that an exception cut short
  const bool joined = has_joined();
  std::unique_ptr<Passage> passage = pipeline_->launch(bucket, joined);
  const int64_t ticket = next_ticket_++;
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  if (joined) {
    // parseHookResult never comes here, but the state must go on with the others'.
    pipeline_->complete(*passage);
  } else {
    under_way_[ticket] = std::move(passage);
  }
  future->markCompleted(ticket);
  return future;
}

at::Tensor Hook::parseHookResult(const c10::IValue& result) {
  const auto found = under_way_.extract(result.toInt());
  Passage& passage = *found.mapped();
  pipeline_->complete(passage);
  return passage.buffer;
}

}  // namespace gradwire
