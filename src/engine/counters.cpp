#include "engine/counters.h"

namespace gradwire {
namespace {

// Adds `sign` times `change` to everything but the number of steps.
void accumulate(Counts& counts, const Counts& change, int sign) {
  counts.gradient_bytes += sign * change.gradient_bytes;
  counts.payload_bytes += sign * change.payload_bytes;
  counts.sent_bytes += sign * change.sent_bytes;
  counts.dense_bytes += sign * change.dense_bytes;
  counts.encode_seconds += sign * change.encode_seconds;
  counts.decode_seconds += sign * change.decode_seconds;
  counts.wait_seconds += sign * change.wait_seconds;
  for (size_t kind = 0; kind < counts.by_kind.size(); ++kind) {
    counts.by_kind[kind].gradient_bytes += sign * change.by_kind[kind].gradient_bytes;
    counts.by_kind[kind].payload_bytes += sign * change.by_kind[kind].payload_bytes;
  }
}

}  // namespace

int64_t Counters::steps() const {
  const std::lock_guard lock(mutex_);
  return total_.steps;
}

Stats Counters::stats() const {
  Stats stats;
  std::shared_ptr<const Plan> plan;
  {
    const std::lock_guard lock(mutex_);
    static_cast<Counts&>(stats) = total_;
    stats.recent = total_;
    stats.recent.steps = static_cast<int64_t>(before_.size());
    accumulate(stats.recent, before_.empty() ? total_ : before_.front(), -1);
    stats.method = method_;
    stats.loss_class = loss_class_;
    plan = plan_;
  }
  stats.plan = *plan;
  return stats;
}

void Counters::begin_step() {
  const std::lock_guard lock(mutex_);
  before_.push_back(total_);
  if (before_.size() > kRecentSteps) before_.pop_front();
  ++total_.steps;
}

void Counters::add(const Counts& done) {
  const std::lock_guard lock(mutex_);
  accumulate(total_, done, 1);
}

void Counters::set_plan(Plan plan, LossClass loss_class) {
  auto shared = std::make_shared<const Plan>(std::move(plan));
  const std::lock_guard lock(mutex_);
  loss_class_ = loss_class;
  plan_ = std::move(shared);
}

void Counters::resume_at(int64_t steps) {
  const std::lock_guard lock(mutex_);
  total_.steps = steps;
  before_.clear();
}

}  // namespace gradwire
