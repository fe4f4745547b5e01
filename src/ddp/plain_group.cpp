#include "ddp/plain_group.h"

#include <cmath>

#include "comm/collectives.h"
#include "comm/without_python_objects.h"

namespace gradwire {
namespace {

// What a whole step sends, by kind: a buffer does not say whose gradients are in it.
Counts by_kind(const std::vector<Parameter>& parameters) {
  Counts counts;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    const int64_t numbers = tensor.numel() * (tensor.is_complex() ? 2 : 1);
    KindCounts& kind = counts.by_kind[static_cast<size_t>(parameter.kind())];
    kind.gradient_bytes += numbers * static_cast<int64_t>(sizeof(float));
    kind.payload_bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  }
  return counts;
}

}  // namespace

PlainGroup::PlainGroup(std::shared_ptr<Engine> engine, std::shared_ptr<StepDetector> detector,
                       std::shared_ptr<StepRecorder> recorder)
    : c10d::ProcessGroup(engine->group()->getRank(), engine->group()->getSize()),
      engine_(std::move(engine)),
      detector_(std::move(detector)),
      recorder_(std::move(recorder)) {}

c10::intrusive_ptr<c10d::Work> PlainGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  // Gradients are floating-point; the Reducer's map of used parameters is not.
  if (tensors.front().is_floating_point() || tensors.front().is_complex()) count(tensors.front());
  const WithoutPythonObjects guard;
  return engine_->group()->allreduce(tensors, options);
}

c10::intrusive_ptr<c10d::Work> PlainGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  return engine_->group()->broadcast(tensors, options);
}

void PlainGroup::count(const at::Tensor& buffer) {
  if (begins_step(buffer)) {
    engine_->counters().begin_step();
    engine_->counters().add(by_kind(engine_->parameters()));
    recorder_->begin_step();
  }
  recorder_->bucket_is_ready(buffer);
  const double multiplier =
      sent_multiplier(Collective::all_reduce_sum, engine_->group()->getSize());
  Counts counts;
  counts.gradient_bytes = buffer.numel() * static_cast<int64_t>(sizeof(float));
  counts.payload_bytes = wire_bytes(buffer);
  counts.sent_bytes = std::llround(static_cast<double>(counts.payload_bytes) * multiplier);
  counts.dense_bytes = std::llround(static_cast<double>(counts.gradient_bytes) * multiplier);
  engine_->counters().add(counts);
}

// The Reducer does not tell this group the number of a bucket. So buffers are numbered as they
// come: one that comes again in a step keeps its number, which is lower than the last.
bool PlainGroup::begins_step(const at::Tensor& buffer) {
  const void* memory = buffer.is_sparse() ? nullptr : buffer.const_data_ptr();
  const auto known = order_.find(memory);
  const size_t order = known == order_.end() ? next_order_++ : known->second;
  const bool begins = detector_->begins_step(order, buffer.numel());
  if (begins) order_.clear();
  if (memory != nullptr) order_[memory] = order;
  return begins;
}

}  // namespace gradwire
