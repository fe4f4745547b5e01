#include "trainer/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gradwire::trainer {
namespace {

constexpr std::chrono::milliseconds kBetweenUpdates(200);
constexpr size_t kBarWidth = 24;

std::string bar(double done) {
  const auto filled = static_cast<size_t>(kBarWidth * std::min(done, 1.0));
  return std::string(filled, '#') + std::string(kBarWidth - filled, '.');
}

std::string duration(double seconds) {
  char text[32];
  const long whole = std::lround(seconds);
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld h", whole / 3600, whole / 60 % 60);
  } else if (whole >= 60) {
    std::snprintf(text, sizeof text, "%ld:%02ld min", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld s", whole);
  }
  return text;
}

}  // namespace

Progress::Progress(std::string title, const Length& length, double seconds, bool silent)
    : title_(std::move(title)),
      length_(length),
      seconds_(seconds),
      silent_(silent),
      terminal_(isatty(1) == 1) {}

bool Progress::due() const {
  return !silent_ && terminal_ && Clock::now() - last_ >= kBetweenUpdates;
}

// "epoch 2/5 [######..................]" or "7/15 s [###########.............]"
std::string Progress::place(int64_t steps_done, double trained) const {
  char text[96];
  if (seconds_ > 0) {
    std::snprintf(text, sizeof text, "%.0f/%.0f s [%s]", std::floor(trained), seconds_,
                  bar(trained / seconds_).c_str());
    return text;
  }
  const int64_t epoch = length_.epoch_of(steps_done - 1);
  const int64_t begin = length_.begin_of(epoch);
  const double done =
      static_cast<double>(steps_done - begin) / static_cast<double>(length_.end_of(epoch) - begin);
  std::snprintf(text, sizeof text, "epoch %ld/%ld [%s]", static_cast<long>(epoch),
                static_cast<long>(length_.epochs()), bar(done).c_str());
  return text;
}

void Progress::step(int64_t steps_done, double loss, int64_t sent_bytes, double trained) {
  const auto now = Clock::now();
  last_ = now;
  if (first_ < 0) {
    first_ = steps_done;
    begin_ = now;
    sent_at_begin_ = sent_bytes;
    return;
  }
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const double rate = static_cast<double>(steps_done - first_) / elapsed;
  const double left =
      seconds_ > 0 ? seconds_ - trained : static_cast<double>(length_.steps - steps_done) / rate;
  std::printf("\r\033[K%s  %s loss %.4f  %.1f steps/s  %.2f MB/s sent  ETA %s", title_.c_str(),
              place(steps_done, trained).c_str(), loss, rate,
              static_cast<double>(sent_bytes - sent_at_begin_) / elapsed / 1e6,
              duration(left).c_str());
  std::fflush(stdout);
  shown_ = true;
}

void Progress::epoch(int64_t epoch, double train_loss, double test_loss, double test_accuracy,
                     double seconds, double compression) {
  if (silent_) return;
  clear();
  std::printf(
      "%s  epoch %ld/%ld  loss %.4f  test loss %.4f  test accuracy %.2f %%  %.1f s  compression "
      "%.1fx\n",
      title_.c_str(), static_cast<long>(epoch), static_cast<long>(length_.epochs()), train_loss,
      test_loss, 100 * test_accuracy, seconds, compression);
  std::fflush(stdout);  // output to a pipe would be kept back
}

void Progress::end(int64_t steps_done, double test_accuracy, double seconds, double compression) {
  if (silent_) return;
  clear();
  std::printf("%s  %.1f s  %ld steps  test accuracy %.2f %%  compression %.1fx\n", title_.c_str(),
              seconds, static_cast<long>(steps_done), 100 * test_accuracy, compression);
  std::fflush(stdout);
}

void Progress::say(const std::string& line) {
  if (silent_) return;
  clear();
  std::printf("%s  %s\n", title_.c_str(), line.c_str());
  std::fflush(stdout);
}

void Progress::clear() {
  if (shown_) std::printf("\r\033[K");
  shown_ = false;
}

}  // namespace gradwire::trainer
