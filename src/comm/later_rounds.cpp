#include "comm/later_rounds.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "comm/collectives.h"
#include "comm/stopwatch.h"

namespace gradwire {

LaterRounds::LaterRounds(const std::vector<c10::intrusive_ptr<c10d::ProcessGroup>>& groups) {
  for (const auto& group : groups) {
    stages_.push_back(std::make_unique<Stage>());
    stages_.back()->group = group;
  }
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages_[i]->thread = std::thread([this, i] { run(i); });
  }
}

LaterRounds::~LaterRounds() {
  // In order: a stage that still works may hand transfers to the next one.
  for (const auto& stage : stages_) {
    {
      const std::lock_guard lock(stage->mutex);
      stage->stopping = true;
    }
    stage->changed.notify_all();
    stage->thread.join();
  }
}

void LaterRounds::follow(std::shared_ptr<Transfer> transfer) { enqueue(0, std::move(transfer)); }

void LaterRounds::enqueue(size_t stage, std::shared_ptr<Transfer> transfer) {
  {
    const std::lock_guard lock(stages_[stage]->mutex);
    stages_[stage]->waiting.push_back(std::move(transfer));
  }
  stages_[stage]->changed.notify_one();
}

void LaterRounds::run(size_t index) {
  const at::NoGradGuard no_grad;
  Stage& stage = *stages_[index];
  while (true) {
    std::shared_ptr<Transfer> transfer;
    {
      std::unique_lock lock(stage.mutex);
      stage.changed.wait(lock, [&] { return stage.stopping || !stage.waiting.empty(); });
      if (stage.waiting.empty()) return;
      transfer = std::move(stage.waiting.front());
      stage.waiting.pop_front();
    }
    bool goes_on = false;
    std::exception_ptr error;
    try {
      goes_on = advance(*transfer, *stage.group);
    } catch (...) {
      error = std::current_exception();
    }
    if (goes_on) {
      enqueue(index + 1, std::move(transfer));
    } else {
      // Let go of the transfer first. Its end may need the Python interpreter (a collective keeps
      // the state of the thread that launched it), which whoever stops this thread may be holding.
      const auto all_launched = transfer->all_launched;
      // After a failure nobody else may hold it any more: then it ends with this object.
      if (transfer.use_count() == 1) stage.abandoned.push_back(std::move(transfer));
      transfer.reset();
      all_launched->announce(error);
    }
  }
}

bool LaterRounds::advance(Transfer& transfer, c10d::ProcessGroup& group) {
  transfer.wait();
  std::optional<Round> round;
  {
    RECORD_FUNCTION("gradwire::encode", {});
    const Stopwatch stopwatch(transfer.between_seconds);
    round = transfer.exchange->complete_round();
  }
  if (!round) {
    transfer.exhausted = true;
    return false;
  }
  launch(transfer, *std::move(round), group);
  return --transfer.rounds_left > 0;
}

}  // namespace gradwire
