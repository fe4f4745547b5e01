#include "ddp/hook.h"

#include <torch/csrc/autograd/graph_task.h>

namespace gradwire {
namespace {

// A worker that has run out of data (DDP's join) calls the hook outside of any backward.
bool has_joined() { return torch::autograd::get_current_graph_task_id() == -1; }

}  // namespace

// The future is complete at once and carries the bucket's number: the waiting is done in
// parseHookResult, on the thread that would wait for the future anyway. So nothing ever runs in a
// callback on the backend's own threads, which are few and needed for the collectives still to
// come.
c10::intrusive_ptr<c10::ivalue::Future> Hook::runHook(c10d::GradBucket& bucket) {
  const size_t number = bucket.getIndex();
  if (number <= last_bucket_) {  // a step begins: whatever an exception has cut short is over
    for (auto& [other, left] : buckets_) left.under_way.reset();
  }
  last_bucket_ = number;
  const bool joined = has_joined();
  std::unique_ptr<Passage> passage = engine_->launch(bucket, joined);
  if (joined) {
    // parseHookResult never comes here, but the state must go on with the others'.
    engine_->complete(*passage);
    passage.reset();
  }
  buckets_[number] = {.under_way = std::move(passage), .buffer = bucket.getBufferRef()};
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  future->markCompleted(static_cast<int64_t>(number));
  return future;
}

// The Reducer asks for a bucket that it has left out (skip_all_reduce_unused_params), too, with the
// future of the step before.
at::Tensor Hook::parseHookResult(const c10::IValue& result) {
  Bucket& bucket = buckets_.at(static_cast<size_t>(result.toInt()));
  if (bucket.under_way != nullptr) engine_->complete(*bucket.under_way);
  bucket.under_way.reset();
  return bucket.buffer;
}

}  // namespace gradwire
