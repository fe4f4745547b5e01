#include "trainer/in_process_group.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace gradwire::trainer {
namespace {

using Offers = std::vector<MeetingPlace::Offer>;

void fail(const MeetingPlace::Offer& offer, const std::string& reason) {
  offer.done->setError(std::make_exception_ptr(std::runtime_error(reason)));
}

void succeed(const MeetingPlace::Offer& offer) {
  offer.done->markCompleted(std::vector<at::Tensor>{offer.receive});
}

// In the order of learners, rounded once.
void sum_up(const Offers& offers, c10d::ReduceOp::RedOpType operation) {
  const at::Tensor& first = offers.front().send;
  const bool narrow = first.scalar_type() == at::kHalf || first.scalar_type() == at::kBFloat16;
  at::Tensor result = narrow ? first.to(at::kFloat) : first.clone();
  for (size_t i = 1; i < offers.size(); ++i) {
    if (operation == c10d::ReduceOp::MIN) {
      result = at::minimum(result, offers[i].send);
    } else if (operation == c10d::ReduceOp::MAX) {
      result = at::maximum(result, offers[i].send);
    } else {
      result.add_(offers[i].send);
    }
  }
  for (const MeetingPlace::Offer& offer : offers) offer.receive.copy_(result);
}

}  // namespace

c10::intrusive_ptr<c10d::Work> MeetingPlace::join(int learner, int64_t number, Offer offer,
                                                  const Perform& perform) {
  offer.done =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  auto work = c10d::Work::create_from_future(offer.done);
  std::vector<Offer> complete;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.empty()) {
      fail(offer, closed_);
      return work;
    }
    Meeting& meeting = meetings_[number];
    meeting.offers.resize(static_cast<size_t>(learners_));
    meeting.offers[static_cast<size_t>(learner)] = std::move(offer);
    if (++meeting.arrived < learners_) return work;
    complete = std::move(meeting.offers);
    meetings_.erase(number);
  }
  try {
    const at::NoGradGuard no_grad;
    perform(complete);
  } catch (const std::exception& error) {
    for (const Offer& each : complete) fail(each, error.what());
    return work;
  }
  for (const Offer& each : complete) succeed(each);
  return work;
}

void MeetingPlace::close(const std::string& reason) {
  std::map<int64_t, Meeting> waiting;
  std::map<int64_t, std::shared_ptr<MeetingPlace>> further;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.empty()) return;
    closed_ = reason;
    waiting.swap(meetings_);
    further = further_;
  }
  for (const auto& [number, meeting] : waiting) {
    for (const Offer& offer : meeting.offers) {
      if (offer.done != nullptr) fail(offer, reason);
    }
  }
  for (const auto& [number, place] : further) place->close(reason);
}

std::shared_ptr<MeetingPlace> MeetingPlace::further(int64_t number) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<MeetingPlace>& place = further_[number];
  if (place == nullptr) place = std::make_shared<MeetingPlace>(learners_);
  return place;
}

InProcessGroup::InProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int learner,
                               int learners, std::shared_ptr<MeetingPlace> place)
    : c10d::ProcessGroup(store, learner, learners), place_(std::move(place)) {}

c10::intrusive_ptr<c10d::ProcessGroup> InProcessGroup::further() {
  const int64_t number = further_groups_++;
  return c10::make_intrusive<InProcessGroup>(
      c10::make_intrusive<c10d::PrefixStore>("further/" + std::to_string(number), getStore()),
      getRank(), getSize(), place_->further(number));
}

c10::intrusive_ptr<c10d::Work> InProcessGroup::join(const at::Tensor& send,
                                                    const at::Tensor& receive,
                                                    const MeetingPlace::Perform& perform) {
  return place_->join(getRank(), collectives_++, {send, receive, nullptr}, perform);
}

c10::intrusive_ptr<c10d::Work> InProcessGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                         const c10d::BroadcastOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "one tensor at a time");
  const auto root = static_cast<size_t>(options.rootRank);
  return join(tensors[0], tensors[0], [root](const Offers& offers) {
    for (size_t i = 0; i < offers.size(); ++i) {
      if (i != root) offers[i].receive.copy_(offers[root].send);
    }
  });
}

c10::intrusive_ptr<c10d::Work> InProcessGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                         const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "one tensor at a time");
  const auto operation = static_cast<c10d::ReduceOp::RedOpType>(options.reduceOp.op_);
  TORCH_CHECK(operation == c10d::ReduceOp::SUM || operation == c10d::ReduceOp::MIN ||
                  operation == c10d::ReduceOp::MAX,
              "learners of one process reduce by sum, minimum or maximum");
  return join(tensors[0], tensors[0],
              [operation](const Offers& offers) { sum_up(offers, operation); });
}

c10::intrusive_ptr<c10d::Work> InProcessGroup::all_gather_single(
    at::Tensor& receive, at::Tensor& send, const c10d::AllgatherOptions& /*options*/) {
  return join(send, receive, [](const Offers& offers) {
    std::vector<at::Tensor> parts;
    for (const MeetingPlace::Offer& offer : offers) parts.push_back(offer.send.view(-1));
    const at::Tensor all = at::cat(parts);
    for (const MeetingPlace::Offer& offer : offers) offer.receive.view(-1).copy_(all);
  });
}

c10::intrusive_ptr<c10d::Work> InProcessGroup::all_to_all_single(
    at::Tensor& receive, at::Tensor& send, std::vector<int64_t>& receive_parts,
    std::vector<int64_t>& send_parts, const c10d::AllToAllOptions& /*options*/) {
  TORCH_CHECK(receive_parts.empty() && send_parts.empty(), "equal parts only");
  return join(send, receive, [](const Offers& offers) {
    const auto learners = static_cast<int64_t>(offers.size());
    std::vector<at::Tensor> rows;
    for (const MeetingPlace::Offer& offer : offers) rows.push_back(offer.send.view({learners, -1}));
    const at::Tensor columns = at::stack(rows, 1);  // [to][from]
    for (int64_t to = 0; to < learners; ++to) {
      offers[static_cast<size_t>(to)].receive.view({learners, -1}).copy_(columns[to]);
    }
  });
}

void InProcessGroup::abort() {
  place_->close("learner " + std::to_string(getRank()) + " has given up");
}

std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> make_in_process_groups(int learners) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  auto place = std::make_shared<MeetingPlace>(learners);
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  for (int learner = 0; learner < learners; ++learner) {
    groups.push_back(c10::make_intrusive<InProcessGroup>(store, learner, learners, place));
  }
  return groups;
}

MakeGroup further_groups_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const auto in_process = c10::dynamic_intrusive_pointer_cast<InProcessGroup>(group);
  if (in_process == nullptr) return {};
  return [in_process] { return in_process->further(); };
}

}  // namespace gradwire::trainer
