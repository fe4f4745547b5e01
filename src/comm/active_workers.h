#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "comm/peer_failure.h"

namespace gradwire {

// How many workers still have data in a step, under DDP's join: a small all-reduce.
class ActiveWorkers {
 public:
  ActiveWorkers(c10d::ProcessGroup& group, at::Device device, bool has_data, int64_t step)
      : count_(at::full({1}, has_data ? 1 : 0, at::TensorOptions(at::kFloat).device(device))),
        step_(step) {
    std::vector<at::Tensor> tensors = {count_};
    work_ = with_other_workers(step_, [&] { return group.allreduce(tensors); });
  }

  double count() const {
    with_other_workers(step_, [&] { return work_->wait(); });
    return count_.item<double>();
  }

 private:
  at::Tensor count_;
  int64_t step_;
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace gradwire
