#include "comm/collectives.h"

#include "comm/direct_messages.h"
#include "comm/without_python_objects.h"

namespace gradwire {
namespace {

std::function<void()> before_launch;

}  // namespace

c10::intrusive_ptr<c10d::Work> start(c10d::ProcessGroup& group, const Round& round) {
  // c10d takes them by reference, and does not change them.
  at::Tensor send = round.send;
  at::Tensor receive = round.receive;
  switch (round.collective) {
    case Collective::all_reduce_sum: {
      std::vector<at::Tensor> tensors = {send};
      return group.allreduce(tensors);
    }
    case Collective::all_gather:
      if (gathers_directly(group, send)) return gather_directly(group, receive, send);
      return group.all_gather_single(receive, send);
    case Collective::all_to_all: {
      if (swaps_directly(group, send)) return swap_directly(group, receive, send);
      std::vector<int64_t> equal_parts;
      return group.all_to_all_single(receive, send, equal_parts, equal_parts);
    }
  }
  TORCH_CHECK(false, "not a collective");
}

void set_before_launch(std::function<void()> function) { before_launch = std::move(function); }

void launch(Transfer& transfer, Round round, c10d::ProcessGroup& group) {
  if (before_launch) before_launch();
  transfer.round = std::move(round);
  transfer.sent_bytes += static_cast<double>(wire_bytes(transfer.round.send)) *
                         sent_multiplier(transfer.round.collective, group.getSize());
  transfer.span = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (transfer.span->isActive()) {
    transfer.span->_setAsync();  // it may end on another thread
    transfer.span->before("gradwire::collective");
  }
  const WithoutPythonObjects guard;
  transfer.work = with_other_workers(transfer.step, [&] { return start(group, transfer.round); });
}

double sent_multiplier(Collective collective, int workers) {
  const double others = workers - 1;
  switch (collective) {
    case Collective::all_reduce_sum:
      return 2 * others / workers;
    case Collective::all_gather:
      return others;
    case Collective::all_to_all:
      return others / workers;
  }
  TORCH_CHECK(false, "not a collective");
}

}  // namespace gradwire
