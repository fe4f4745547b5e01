#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>

namespace gradwire::trainer {

// Runs the function once per learner, each in a thread of this process. Throws the first error
// after all have ended.
void run_learners(
    int learners,
    const std::function<void(int, const c10::intrusive_ptr<c10d::ProcessGroup>&)>& function);

}  // namespace gradwire::trainer
