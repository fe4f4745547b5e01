#include "trainer/batches.h"

#include <algorithm>

namespace gradwire::trainer {
namespace {

// Small batches are prepared together, because each preparation starts a thread.
constexpr int64_t kSamplesAtOnce = 256;

// Does not copy: the data set must outlive the tensor.
template <typename Element>
torch::Tensor view_of(const std::vector<Element>& elements, std::vector<int64_t> shape,
                      torch::ScalarType type) {
  return torch::from_blob(const_cast<Element*>(elements.data()), shape, type);
}

torch::Tensor per_channel(const std::vector<float>& values) {
  return torch::tensor(values).view({1, -1, 1, 1});
}

}  // namespace

Samples::Samples(const data::Dataset& dataset, const data::Part& part, int64_t limit)
    : kind_(dataset.kind) {
  const auto samples = static_cast<int64_t>(part.samples);
  std::vector<int64_t> shape = {samples};
  shape.insert(shape.end(), dataset.sample_shape.begin(), dataset.sample_shape.end());
  switch (kind_) {
    case data::Kind::images:
      inputs_ = view_of(part.bytes, shape, torch::kUInt8);
      mean_ = per_channel(dataset.mean);
      deviation_ = per_channel(dataset.deviation);
      break;
    case data::Kind::frames:
      inputs_ = view_of(part.features, shape, torch::kFloat);
      break;
    case data::Kind::characters:
      if (samples <= kStretch) {
        throw std::invalid_argument("a text of " + std::to_string(samples) +
                                    " characters is too short: each part needs more than " +
                                    std::to_string(kStretch));
      }
      // Each stretch has one character more, which is its last target.
      inputs_ = view_of(part.bytes, {samples}, torch::kUInt8).unfold(0, kStretch + 1, kStretch);
      break;
  }
  if (kind_ != data::Kind::characters) labels_ = view_of(part.labels, {samples}, torch::kUInt8);
  if (limit > 0 && limit < inputs_.size(0)) inputs_ = inputs_.narrow(0, 0, limit);
}

Batch Samples::gather(const torch::Tensor& indices) const {
  const torch::Tensor chosen = inputs_.index_select(0, indices);
  if (kind_ == data::Kind::characters) {
    const torch::Tensor text = chosen.to(torch::kLong);
    return {text.narrow(1, 0, kStretch), text.narrow(1, 1, kStretch).reshape(-1)};
  }
  const torch::Tensor target = labels_.index_select(0, indices).to(torch::kLong);
  if (kind_ == data::Kind::frames) return {chosen, target};
  return {chosen.to(torch::kFloat).div_(255).sub_(mean_).div_(deviation_), target};
}

EpochBatches::EpochBatches(const Samples& samples, int64_t batch, int worker, int workers,
                           uint64_t seed, int64_t first_step)
    : samples_(samples),
      batch_(batch),
      worker_(worker),
      workers_(workers),
      order_(torch::randperm(samples.count(), torch::make_generator<torch::CPUGeneratorImpl>(seed),
                             torch::TensorOptions(torch::kLong))),
      next_step_(first_step) {
  prepare();
}

void EpochBatches::prepare() {
  const int64_t at_once = std::max<int64_t>(1, kSamplesAtOnce / batch_);
  const int64_t count = std::min(at_once, steps(samples_, batch_, workers_) - next_step_);
  if (count <= 0) return;
  const int64_t everyones = workers_ * batch_;
  const torch::Tensor indices = order_.narrow(0, next_step_ * everyones, count * everyones)
                                    .view({count, workers_, batch_})
                                    .select(1, worker_)
                                    .reshape(-1);
  prepared_ = std::async(std::launch::async, [this, indices] { return samples_.gather(indices); });
  next_step_ += count;
}

Batch EpochBatches::next() {
  if (ready_.empty()) {
    const Batch several = prepared_.get();
    prepare();
    const int64_t count = several.input.size(0) / batch_;
    const std::vector<torch::Tensor> inputs = several.input.chunk(count);
    const std::vector<torch::Tensor> targets = several.target.chunk(count);
    for (size_t i = 0; i < inputs.size(); ++i) ready_.push_back({inputs[i], targets[i]});
  }
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  return batch;
}

}  // namespace gradwire::trainer
