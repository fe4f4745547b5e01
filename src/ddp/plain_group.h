#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <unordered_map>

#include "auto/step_recorder.h"
#include "ddp/step_detector.h"
#include "engine/engine.h"

namespace gradwire {

// The user's process group with a meter on it, for models that travel uncompressed.
//
// Why not the hook: a Reducer with a hook leaves the division by the number of workers to it, which
// costs a pass of its own over the gradients (4 to 8 % of a step that is bound by memory). A
// Reducer without a hook divides while it copies, for nothing. So plain all-reduce stays the
// Reducer's own, equal to stock DDP in every bit and at every step, and this only counts what it
// sends.
class PlainGroup final : public c10d::ProcessGroup {
 public:
  PlainGroup(std::shared_ptr<Engine> engine, std::shared_ptr<StepDetector> detector,
             std::shared_ptr<StepRecorder> recorder);

  // The two that a Reducer uses.
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;

 private:
  void count(const at::Tensor& buffer);
  bool begins_step(const at::Tensor& buffer);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<StepDetector> detector_;
  std::shared_ptr<StepRecorder> recorder_;
  std::unordered_map<const void*, size_t> order_;  // of the buffers of this step
  size_t next_order_ = 0;
};

}  // namespace gradwire
