#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>
#include <unordered_map>

#include "engine/engine.h"

namespace gradwire {

// Plugs a Engine into a c10d::Reducer. The Reducer calls runHook when a bucket is ready, from
// within backward, and parseHookResult at the end of backward, for one bucket after the other in
// order.
class Hook final : public c10d::CommHookInterface {
 public:
  explicit Hook(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override;

 private:
  std::shared_ptr<Engine> engine_;
  // Of each bucket the last passage, and what it left in the bucket.
  struct Bucket {
    std::unique_ptr<Passage> under_way;  // null once it is complete
    at::Tensor buffer;
  };
  std::unordered_map<size_t, Bucket> buckets_;
  size_t last_bucket_ = 0;
};

}  // namespace gradwire
