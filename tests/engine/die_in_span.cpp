// Lets a test kill a worker inside a phase of a step: the phases are spans that profilers see.

#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

namespace {

std::string wanted;
std::chrono::microseconds delay;
std::atomic<int> spans_left{0};

std::unique_ptr<at::ObserverContext> count_span(const at::RecordFunction& span) {
  if (span.name() == wanted && --spans_left == 0) {
    std::thread([] {
      std::this_thread::sleep_for(delay);
      std::raise(SIGKILL);
    }).detach();
    // The phase goes on beside it unless the blow is to come at once.
    if (delay.count() == 0) std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  return nullptr;
}

}  // namespace

// From now on the process dies `microseconds` into the `number`th span of this name.
extern "C" __attribute__((visibility("default"))) void die_in_span(const char* name, int number,
                                                                   int microseconds) {
  wanted = name;
  delay = std::chrono::microseconds(microseconds);
  spans_left = number;
  at::addGlobalCallback(at::RecordFunctionCallback(count_span));
}
