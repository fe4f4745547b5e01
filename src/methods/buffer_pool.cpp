#include "methods/buffer_pool.h"

#include <algorithm>

#include "methods/device_code.h"

namespace gradwire {
namespace {

constexpr int64_t kRoom = 64;  // bytes

bool is_free(const at::Tensor& buffer) { return buffer.storage().use_count() == 1; }

}  // namespace

at::Tensor BufferPool::take(int64_t elements, const at::TensorOptions& options) {
  if (!is_host(options.device())) return at::empty({elements}, options);
  const int64_t bytes = elements * static_cast<int64_t>(options.dtype().itemsize());
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const at::Tensor& buffer) {
    // One that is far too large is left to those who need it.
    return is_free(buffer) && buffer.numel() >= bytes && buffer.numel() <= 2 * bytes + kRoom;
  };
  auto found = std::ranges::find_if(buffers_, fits);
  if (found == buffers_.end()) {
    // Payloads have changed their size. One that nobody uses makes room, so there are never more
    // than were in use at once.
    const auto spare = std::ranges::find_if(buffers_, is_free);
    if (spare != buffers_.end()) buffers_.erase(spare);
    // A little larger, because payloads of variable size vary a little.
    buffers_.push_back(at::empty({bytes + bytes / 16 + kRoom}, at::kByte));
    found = buffers_.end() - 1;
  }
  return found->narrow(0, 0, bytes).view(c10::typeMetaToScalarType(options.dtype()));
}

}  // namespace gradwire
