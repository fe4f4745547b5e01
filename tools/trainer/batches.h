#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <deque>
#include <future>

#include "data/dataset.h"

namespace gradwire::trainer {

constexpr int64_t kStretch = 50;   // characters per sample of a text
constexpr int64_t kMostShift = 4;  // pixels, of augmented images
constexpr int64_t kShifts = 2 * kMostShift + 1;
constexpr int64_t kVariations = 2 * kShifts * kShifts;  // of an augmented image

struct Batch {
  torch::Tensor input;
  torch::Tensor target;  // flat: one class per prediction
};

// A part of a data set, as tensors. A sample is an image, a frame of speech with its neighbours, or
// a stretch of text.
class Samples {
 public:
  // Takes the first `limit` samples, or all if it is 0. The data set must outlive this object.
  Samples(const data::Dataset& dataset, const data::Part& part, int64_t limit);

  int64_t count() const { return inputs_.size(0); }
  bool are_images() const { return kind_ == data::Kind::images; }
  // If there are `variations`, numbers below kVariations, each says how its image is changed.
  Batch gather(const torch::Tensor& indices, const torch::Tensor& variations = {}) const;

 private:
  data::Kind kind_;
  torch::Tensor inputs_;
  torch::Tensor labels_;
  torch::Tensor mean_, deviation_;
};

// The batches of one worker in one epoch. All workers shuffle in the same way, and each takes its
// own part of every global batch. Another thread makes the next batches while these are in use. If
// images are augmented, the epoch and not the worker decides how a sample is changed.
class EpochBatches {
 public:
  EpochBatches(const Samples& samples, int64_t batch, int worker, int workers, uint64_t seed,
               int64_t first_step, bool augment);
  ~EpochBatches() { wait(); }
  EpochBatches(const EpochBatches&) = delete;
  EpochBatches& operator=(const EpochBatches&) = delete;

  static int64_t steps(const Samples& samples, int64_t batch, int workers) {
    return samples.count() / (batch * workers);
  }
  Batch next();  // may be called once for each step that is left

 private:
  void prepare();
  void wait() {
    if (prepared_.valid()) prepared_.wait();
  }

  const Samples& samples_;
  int64_t batch_;
  int worker_;
  int workers_;
  torch::Tensor order_;
  torch::Tensor variations_;  // of every sample in this order; undefined if there are none
  int64_t next_step_;         // the first step whose batch is not prepared
  std::deque<Batch> ready_;
  std::future<Batch> prepared_;  // holds the samples of several steps
};

}  // namespace gradwire::trainer
