#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gradwire/process_group.h"

namespace gradwire::trainer {

// Where the learners of one process meet. The learner that comes last does the collective, with the
// tensors of all learners in their order, so the result is the same in every run.
class MeetingPlace {
 public:
  struct Offer {
    at::Tensor send;
    at::Tensor receive;
    c10::intrusive_ptr<c10::ivalue::Future> done;
  };
  using Perform = std::function<void(const std::vector<Offer>&)>;

  explicit MeetingPlace(int learners) : learners_(learners) {}

  // Takes part in the `number`th collective of this learner. All learners make the same collectives
  // in the same order.
  c10::intrusive_ptr<c10d::Work> join(int learner, int64_t number, Offer offer,
                                      const Perform& perform);
  // Every collective that waits, and every later one, ends with this error.
  void close(const std::string& reason);
  // The meeting place of the `number`th further group.
  std::shared_ptr<MeetingPlace> further(int64_t number);

 private:
  struct Meeting {
    std::vector<Offer> offers;
    int arrived = 0;
  };

  int learners_;
  std::mutex mutex_;
  std::map<int64_t, Meeting> meetings_;  // those that wait for some learners
  std::map<int64_t, std::shared_ptr<MeetingPlace>> further_;
  std::string closed_;  // the reason, or empty
};

class InProcessGroup final : public c10d::ProcessGroup {
 public:
  InProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int learner, int learners,
                 std::shared_ptr<MeetingPlace> place);

  c10::intrusive_ptr<c10d::ProcessGroup> further();

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor& receive, at::Tensor& send,
                                                   const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor& receive, at::Tensor& send,
                                                   std::vector<int64_t>& receive_parts,
                                                   std::vector<int64_t>& send_parts,
                                                   const c10d::AllToAllOptions& options) override;
  // This learner gives up: the others' collectives end with an error instead of waiting for it.
  void abort() override;

 private:
  c10::intrusive_ptr<c10d::Work> join(const at::Tensor& send, const at::Tensor& receive,
                                      const MeetingPlace::Perform& perform);

  std::shared_ptr<MeetingPlace> place_;
  std::atomic<int64_t> collectives_ = 0;
  int64_t further_groups_ = 0;
};

// One group for each of several learners that are threads of this process, for studies with more
// learners than a machine has room for processes (128 Gloo workers would need 16,000 sockets). A
// learner that fails calls abort() on its group, so that the others do not wait for it.
std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> make_in_process_groups(int learners);

// How to make further groups of the same learners, or nothing for a group of another kind.
MakeGroup further_groups_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace gradwire::trainer
