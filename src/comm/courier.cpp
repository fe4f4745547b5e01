#include "comm/courier.h"

#include <ATen/record_function.h>

#include "comm/collectives.h"
#include "comm/stopwatch.h"

namespace gradwire {

Courier::Courier(c10::intrusive_ptr<c10d::ProcessGroup> group, const MakeGroup& make_group,
                 int rounds)
    : group_(std::move(group)) {
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  for (int round = 1; round < rounds; ++round) groups.push_back(make_group());
  if (!groups.empty()) later_rounds_ = std::make_unique<LaterRounds>(groups);
}

std::shared_ptr<Transfer> Courier::start(std::unique_ptr<Exchange> exchange, int rounds,
                                         int64_t step) {
  auto transfer = std::make_shared<Transfer>();
  transfer->step = step;
  transfer->exchange = std::move(exchange);
  transfer->rounds_left = rounds - 1;
  transfer->is_followed = transfer->rounds_left > 0;
  Round round;
  {
    RECORD_FUNCTION("gradwire::encode", {});
    const Stopwatch stopwatch(transfer->encode_seconds);
    round = transfer->exchange->start();
  }
  transfer->gathers = round.collective == Collective::all_gather;
  launch(*transfer, std::move(round), *group_);
  if (transfer->is_followed) later_rounds_->follow(transfer);
  return transfer;
}

void Courier::finish(Transfer& transfer) {
  {
    RECORD_FUNCTION("gradwire::wait", {});
    const Stopwatch stopwatch(transfer.wait_seconds);
    if (transfer.is_followed) transfer.all_launched->wait();
    if (!transfer.exhausted) transfer.wait();
  }
  RECORD_FUNCTION("gradwire::decode", {});
  const Stopwatch stopwatch(transfer.decode_seconds);
  if (!transfer.exhausted) {
    const std::optional<Round> further = transfer.exchange->complete_round();
    TORCH_INTERNAL_ASSERT(!further, "a method made more rounds than it announced");
  }
  transfer.exchange->finish();
}

}  // namespace gradwire
