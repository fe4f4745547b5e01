#include "methods/device_path.h"

#include <ATen/Parallel.h>

#include <atomic>

// (clang-tidy reads the code without it.)
#if !defined(INTRA_OP_PARALLEL) && !defined(__clang_analyzer__)
#error "at::parallel_for would run on one thread: compile with OpenMP"
#endif

namespace gradwire {
namespace {
std::atomic<int> forced = 0;
}

bool takes_kernels(const at::Tensor& tensor) { return tensor.is_cpu() && forced == 0; }

ForceAtenPath::ForceAtenPath() { ++forced; }
ForceAtenPath::~ForceAtenPath() { --forced; }

}  // namespace gradwire
