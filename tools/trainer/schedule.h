#pragma once

#include <cstdint>

#include "trainer/settings.h"

namespace gradwire::trainer {

// How long a training is. Epochs count from 1, and the last one may be cut.
struct Length {
  int64_t steps_per_epoch = 0;
  int64_t steps = 0;  // of the whole training; where only the time is known, more than there can be

  int64_t epochs() const { return (steps + steps_per_epoch - 1) / steps_per_epoch; }
  int64_t epoch_of(int64_t step) const { return step / steps_per_epoch + 1; }
  // Steps that are done when the epoch begins, and when it ends.
  int64_t begin_of(int64_t epoch) const { return (epoch - 1) * steps_per_epoch; }
  int64_t end_of(int64_t epoch) const;
};

Length length_of(const Settings& settings, int64_t steps_per_epoch);

// The learning rate of the step that follows `steps_done` steps. It rises linearly during the
// warm-up. Then it falls as a cosine to 0 at the end of the training, or it falls at the epochs of
// `decay_at`.
double learning_rate(const Settings& settings, const Length& length, int64_t steps_done);

}  // namespace gradwire::trainer
