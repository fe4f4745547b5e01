#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <unordered_map>
#include <vector>

#include "engine/engine.h"

namespace gradwire {

// Finds the engine's parameters in the Reducer's buckets.
class BucketGradients {
 public:
  explicit BucketGradients(const std::vector<Parameter>& parameters);

  std::vector<Gradient> of(c10d::GradBucket& bucket) const;

 private:
  std::unordered_map<const c10::TensorImpl*, size_t> index_of_;
};

}  // namespace gradwire
