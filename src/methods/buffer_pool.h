#pragma once

#include <ATen/ATen.h>

#include <mutex>
#include <vector>

namespace gradwire {

// Memory that one step after the other uses for its payloads. Fresh memory from the system costs
// more to touch for the first time than most methods need to fill it.
class BufferPool {
 public:
  // So many elements, not initialised. They are free to be taken again when nothing refers to them
  // any more. Devices other than the CPU have allocators that do this by themselves.
  at::Tensor take(int64_t elements, const at::TensorOptions& options);

 private:
  std::mutex mutex_;
  std::vector<at::Tensor> buffers_;  // bytes, each with a storage of its own
};

}  // namespace gradwire
