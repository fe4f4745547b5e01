#include "trainer/stop.h"

#include <csignal>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace gradwire::trainer {
namespace {

constexpr int64_t kStride = 8;

volatile std::sig_atomic_t signalled = 0;

void note(int signal) {
  signalled = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_signals() {
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

// Each training of a process has another key: a stop that was announced in one is not meant for the
// next. All workers count alike, as they make these objects in the same order.
StopAgreement::StopAgreement(c10d::ProcessGroup& group)
    : group_(group),
      key_("gradwire/stop/" + std::to_string(group.getStore()->add(
                                  "gradwire/stops/" + std::to_string(group.getRank()), 1))) {}

bool StopAgreement::stops_before(int64_t step) {
  if (stop_ >= 0) return step >= stop_;
  if (step % kStride != 0) return false;
  const auto store = group_.getStore();
  if (group_.getRank() == 0) {
    if (signalled == 0) return false;
    stop_ = step + kStride;
    store->set(key_, std::to_string(stop_));
  } else if (store->check({key_})) {
    stop_ = std::stoll(store->get_to_str(key_));
  }
  return stop_ >= 0 && step >= stop_;
}

}  // namespace gradwire::trainer
