#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradwire::trainer {

// Everything that decides what a training computes, except the method.
struct Settings {
  std::string data = "fashion-mnist";
  std::string model = "cnn";
  int64_t epochs = 5;
  int64_t steps = 0;   // if above 0, the length of the training in place of epochs
  double seconds = 0;  // if above 0, its length in time; tests do not count
  int64_t batch = 16;  // per worker
  std::string optimizer = "sgd";
  double lr = 0.03;
  double momentum = 0.9;               // of SGD
  std::optional<double> weight_decay;  // without a value, the optimizer's own (optimizer.h)
  double clip = 0;                     // largest norm of the gradient; 0 for any
  double warmup_epochs = 0;            // in these the learning rate rises linearly to lr
  std::vector<int64_t> decay_at;       // after these epochs it is multiplied by decay
  double decay = 0.1;
  bool cosine = false;   // after the warm-up the learning rate falls as a cosine to 0
  bool augment = false;  // shift and mirror the training images at random
  uint64_t seed = 1;
  std::string link;         // rate of the emulated links that join the workers; empty for none
  int64_t train_limit = 0;  // number of samples; 0 for all
  int64_t test_limit = 0;
  std::string checkpoint;  // a folder; empty for none
  bool resume = false;
};

}  // namespace gradwire::trainer
