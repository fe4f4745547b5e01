#include "comm/direct_messages.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "methods/device_code.h"

namespace gradwire {
namespace {

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

// All workers of a group send and expect messages in the same order, so one tag is enough. It keeps
// them apart from the user's own messages.
constexpr int kTag = 0x67726164;

// After an error nobody waits for the messages under way. They are kept for good, because a message
// whose memory is gone would block its connection.
void keep_for_good(const Works& messages) {
  static std::mutex mutex;
  static Works& kept = *new Works;
  const std::lock_guard lock(mutex);
  kept.insert(kept.end(), messages.begin(), messages.end());
}

class Messages final : public c10d::Work {
 public:
  Messages() = default;
  ~Messages() override {
    if (!messages_.empty()) keep_for_good(messages_);
  }

  void receive(c10d::ProcessGroup& group, at::Tensor tensor, int from) {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    messages_.push_back(group.recv(tensors, from, kTag));
  }
  void send(c10d::ProcessGroup& group, at::Tensor tensor, int to) {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    messages_.push_back(group.send(tensors, to, kTag));
  }

  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& message : messages_) {
      TORCH_CHECK(message->wait(timeout), "a message between workers was cancelled");
    }
    messages_.clear();
    return true;
  }

 private:
  Works messages_;
};

bool is_gloo(c10d::ProcessGroup& group, const at::Tensor& tensor) {
  if (!is_host(tensor.device()) || tensor.numel() == 0) return false;
  const std::vector<c10::Device> devices = group.getDeviceTypes();
  if (std::ranges::find(devices, c10::Device(at::kCPU)) == devices.end()) return false;
  try {
    return group.getBackend(at::kCPU)->getBackendName() == "gloo";
  } catch (const c10::Error&) {  // some backends have no name
    return false;
  }
}

// `part_for` gives what a worker is sent. Each worker begins with the next one, so that they do not
// all send to the same worker at once.
template <typename PartFor>
c10::intrusive_ptr<c10d::Work> exchange(c10d::ProcessGroup& group, const at::Tensor& receive,
                                        const PartFor& part_for) {
  const int workers = group.getSize();
  const int own = group.getRank();
  const at::Tensor parts = receive.view({workers, -1});
  parts[own].copy_(part_for(own));
  auto messages = c10::make_intrusive<Messages>();
  for (int i = 1; i < workers; ++i) {
    const int from = (own + workers - i) % workers;
    messages->receive(group, parts[from], from);
  }
  for (int i = 1; i < workers; ++i) {
    const int to = (own + i) % workers;
    messages->send(group, part_for(to), to);
  }
  return messages;
}

}  // namespace

bool gathers_directly(c10d::ProcessGroup& group, const at::Tensor& send) {
  return group.getSize() == 2 && is_gloo(group, send);
}

bool swaps_directly(c10d::ProcessGroup& group, const at::Tensor& send) {
  return group.getSize() > 1 && is_gloo(group, send);
}

c10::intrusive_ptr<c10d::Work> gather_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                               const at::Tensor& send) {
  const at::Tensor whole = send.view(-1);
  return exchange(group, receive, [&](int) -> const at::Tensor& { return whole; });
}

c10::intrusive_ptr<c10d::Work> swap_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                             const at::Tensor& send) {
  const at::Tensor parts = send.view({group.getSize(), -1});
  return exchange(group, receive, [&](int worker) { return parts[worker]; });
}

}  // namespace gradwire
