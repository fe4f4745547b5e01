#include "ddp/hook.h"

#include <torch/csrc/autograd/graph_task.h>

namespace gradwire {
namespace {

// A worker that has run out of data (DDP's join) calls the hook outside of any backward.
bool is_outside_backward() { return torch::autograd::get_current_graph_task_id() == -1; }

}  // namespace

Hook::Hook(std::shared_ptr<Engine> engine, std::shared_ptr<StepDetector> detector,
           std::shared_ptr<StepRecorder> recorder)
    : engine_(std::move(engine)),
      detector_(std::move(detector)),
      recorder_(std::move(recorder)),
      gradients_(engine_->parameters()) {}

// The future is complete at once and carries the bucket's number: the waiting is done in
// parseHookResult, on the thread that would wait for the future anyway. So nothing ever runs in a
// callback on the backend's own threads, which are few and needed for the collectives still to
// come.
c10::intrusive_ptr<c10::ivalue::Future> Hook::runHook(c10d::GradBucket& bucket) {
  const size_t number = bucket.getIndex();
  const at::Tensor& buffer = bucket.getBufferRef();
  const bool has_joined = is_outside_backward();
  if (detector_->begins_step(number, buffer.numel(), has_joined)) begin_step(has_joined);
  if (is_recording_) recorder_->bucket_is_ready(buffer);
  buckets_[number] = {
      .part = engine_->start(gradients_.of(bucket)), .place = launched_++, .buffer = buffer};
  if (is_recording_) recorder_->bucket_is_launched();
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  future->markCompleted(static_cast<int64_t>(number));
  // The Reducer does not ask a worker that has joined for the result, but its state must go on with
  // the others'.
  if (has_joined) parseHookResult(future->value());
  return future;
}

void Hook::begin_step(bool has_joined) {
  for (auto& [number, bucket] : buckets_) bucket.part.reset();  // what an exception has cut short
  launched_ = 0;
  engine_->begin_step(/*has_data=*/!has_joined);
  is_recording_ = engine_->is_compressing() && !has_joined;
  if (is_recording_) recorder_->begin_step();
}

// The Reducer asks for a bucket that it has left out (skip_all_reduce_unused_params), too, with the
// future of the step before.
at::Tensor Hook::parseHookResult(const c10::IValue& result) {
  Bucket& bucket = buckets_.at(static_cast<size_t>(result.toInt()));
  const std::unique_ptr<Part> part = std::move(bucket.part);
  if (part == nullptr) return bucket.buffer;
  engine_->finish(*part);
  detector_->bucket_is_complete();
  if (is_recording_) {
    recorder_->bucket_is_decoded(bucket.place, part->between_seconds, part->decode_seconds,
                                 part->gathered_bytes);
  }
  return bucket.buffer;
}

}  // namespace gradwire
