#include "trainer/stop.h"

#include <csignal>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace gradwire::trainer {
namespace {

constexpr int64_t kStride = 8;
constexpr const char* kKey = "gradwire/stop";

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

bool StopAgreement::stops_before(int64_t step) {
  if (stop_ >= 0) return step >= stop_;
  if (step % kStride != 0) return false;
  const auto store = group_.getStore();
  if (group_.getRank() == 0) {
    if (signalled == 0) return false;
    stop_ = step + kStride;
    store->set(kKey, std::to_string(stop_));
  } else if (store->check({kKey})) {
    stop_ = std::stoll(store->get_to_str(kKey));
  }
  return stop_ >= 0 && step >= stop_;
}

}  // namespace gradwire::trainer
