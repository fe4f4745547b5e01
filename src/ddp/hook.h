#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>
#include <unordered_map>

#include "auto/step_recorder.h"
#include "ddp/bucket_gradients.h"
#include "ddp/step_detector.h"
#include "engine/engine.h"

namespace gradwire {

// Plugs the engine into a c10d::Reducer. The Reducer calls runHook when a bucket is ready, from
// within backward, and parseHookResult at the end of backward, for one bucket after the other in
// order.
class Hook final : public c10d::CommHookInterface {
 public:
  Hook(std::shared_ptr<Engine> engine, std::shared_ptr<StepDetector> detector,
       std::shared_ptr<StepRecorder> recorder);

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override;

 private:
  // The last that became of a bucket.
  struct Bucket {
    std::unique_ptr<Part> part;  // null once it is finished
    size_t place = 0;            // among the buckets of its step
    at::Tensor buffer;
  };
  void begin_step(bool has_joined);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<StepDetector> detector_;
  std::shared_ptr<StepRecorder> recorder_;
  BucketGradients gradients_;
  std::unordered_map<size_t, Bucket> buckets_;
  size_t launched_ = 0;        // buckets of this step
  bool is_recording_ = false;  // this step
};

}  // namespace gradwire
