#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gradwire::trainer {

int64_t Length::end_of(int64_t epoch) const { return std::min(epoch * steps_per_epoch, steps); }

Length length_of(const Settings& settings, int64_t steps_per_epoch) {
  constexpr int64_t kEndless = int64_t{1} << 60;
  return {.steps_per_epoch = steps_per_epoch,
          .steps = settings.seconds > 0 ? kEndless
                   : settings.steps > 0 ? settings.steps
                                        : settings.epochs * steps_per_epoch};
}

double learning_rate(const Settings& settings, const Length& length, int64_t steps_done) {
  const auto steps_per_epoch = static_cast<double>(length.steps_per_epoch);
  const double epochs_done = static_cast<double>(steps_done) / steps_per_epoch;
  double rate = settings.lr;
  if (epochs_done < settings.warmup_epochs) {
    rate *= epochs_done / settings.warmup_epochs;
  } else if (settings.cosine) {
    const double all_epochs = static_cast<double>(length.steps) / steps_per_epoch;
    const double done =
        (epochs_done - settings.warmup_epochs) / (all_epochs - settings.warmup_epochs);
    rate *= 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
  for (const int64_t epoch : settings.decay_at) {
    if (epochs_done >= static_cast<double>(epoch)) rate *= settings.decay;
  }
  return rate;
}

}  // namespace gradwire::trainer
