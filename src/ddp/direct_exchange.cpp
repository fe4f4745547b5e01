#include "ddp/direct_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace gradwire {
namespace {

// All messages of a group are sent and expected in the same order, so one tag will do; it keeps
// them apart from the user's own.
constexpr int kTag = 0x67726164;

class Messages final : public c10d::Work {
 public:
  void receive(c10d::ProcessGroup& group, at::Tensor tensor, int from) {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    received_.push_back(group.recv(tensors, from, kTag));
  }
  void send(c10d::ProcessGroup& group, at::Tensor tensor, int to) {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    sent_.push_back(group.send(tensors, to, kTag));
  }

  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& message : received_) message->wait(timeout);
    for (const auto& message : sent_) message->wait(timeout);
    return true;
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> received_;
  std::vector<c10::intrusive_ptr<c10d::Work>> sent_;
};

// `part_for` gives what a worker is sent. The next worker first, so that not all send to the same.
template <typename PartFor>
c10::intrusive_ptr<c10d::Work> exchange(c10d::ProcessGroup& group, const at::Tensor& receive,
                                        const PartFor& part_for) {
  const int workers = group.getSize();
  const int own = group.getRank();
  const std::vector<at::Tensor> parts = receive.flatten().chunk(workers);
  auto messages = c10::make_intrusive<Messages>();
  for (int i = 1; i < workers; ++i) {
    const int from = (own + workers - i) % workers;
    messages->receive(group, parts[from], from);
  }
  for (int i = 1; i < workers; ++i) {
    const int to = (own + i) % workers;
    messages->send(group, part_for(to), to);
  }
  parts[own].copy_(part_for(own));
  return messages;
}

}  // namespace

bool has_direct_exchange(c10d::ProcessGroup& group, const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.numel() == 0 || group.getSize() == 1) return false;
  const std::vector<c10::Device> devices = group.getDeviceTypes();
  return std::ranges::find(devices, c10::Device(at::kCPU)) != devices.end() &&
         group.getBackend(at::kCPU)->getBackendName() == "gloo";
}

c10::intrusive_ptr<c10d::Work> gather_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                               const at::Tensor& send) {
  const at::Tensor whole = send.flatten();
  return exchange(group, receive, [&](int) -> const at::Tensor& { return whole; });
}

c10::intrusive_ptr<c10d::Work> swap_directly(c10d::ProcessGroup& group, const at::Tensor& receive,
                                             const at::Tensor& send) {
  const std::vector<at::Tensor> parts = send.flatten().chunk(group.getSize());
  return exchange(group, receive, [&](int worker) { return parts[worker]; });
}

}  // namespace gradwire
