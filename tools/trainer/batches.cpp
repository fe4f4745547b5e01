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

// Shifts every image by up to kMostShift pixels down and to the right, with black at the border,
// and mirrors some, as is usual for CIFAR-10.
torch::Tensor varied(const torch::Tensor& images, const torch::Tensor& variations) {
  const int64_t height = images.size(2), width = images.size(3);
  const torch::Tensor padded =
      torch::constant_pad_nd(images, {kMostShift, kMostShift, kMostShift, kMostShift});
  torch::Tensor result = torch::empty_like(images);
  for (int64_t i = 0; i < images.size(0); ++i) {
    const auto variation = variations[i].item<int64_t>();
    const int64_t row = variation % kShifts, column = variation / kShifts % kShifts;
    const torch::Tensor part = padded[i].narrow(1, row, height).narrow(2, column, width);
    const bool mirror = variation >= kShifts * kShifts;
    result[i].copy_(mirror ? part.flip(2) : part);
  }
  return result;
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

Batch Samples::gather(const torch::Tensor& indices, const torch::Tensor& variations) const {
  torch::Tensor chosen = inputs_.index_select(0, indices);
  if (variations.defined()) chosen = varied(chosen, variations);
  if (kind_ == data::Kind::characters) {
    const torch::Tensor text = chosen.to(torch::kLong);
    return {text.narrow(1, 0, kStretch), text.narrow(1, 1, kStretch).reshape(-1)};
  }
  const torch::Tensor target = labels_.index_select(0, indices).to(torch::kLong);
  if (kind_ == data::Kind::frames) return {chosen, target};
  return {chosen.to(torch::kFloat).div_(255).sub_(mean_).div_(deviation_), target};
}

EpochBatches::EpochBatches(const Samples& samples, int64_t batch, int worker, int workers,
                           uint64_t seed, int64_t first_step, bool augment)
    : samples_(samples), batch_(batch), worker_(worker), workers_(workers), next_step_(first_step) {
  const auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  order_ = torch::randperm(samples.count(), generator, torch::TensorOptions(torch::kLong));
  if (augment) {
    variations_ = torch::randint(kVariations, {samples.count()}, generator, torch::kLong);
  }
  prepare();
}

void EpochBatches::prepare() {
  const int64_t at_once = std::max<int64_t>(1, kSamplesAtOnce / batch_);
  const int64_t count = std::min(at_once, steps(samples_, batch_, workers_) - next_step_);
  if (count <= 0) return;
  const int64_t everyones = workers_ * batch_;
  const auto own_part = [&](const torch::Tensor& of_all) {
    return of_all.narrow(0, next_step_ * everyones, count * everyones)
        .view({count, workers_, batch_})
        .select(1, worker_)
        .reshape(-1);
  };
  const torch::Tensor indices = own_part(order_);
  const torch::Tensor variations = variations_.defined() ? own_part(variations_) : torch::Tensor();
  prepared_ = std::async(std::launch::async, [this, indices, variations] {
    return samples_.gather(indices, variations);
  });
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
