// S-SGD: the result is the mean of the gradients, exactly. One all-reduce.
//
// Where a whole model travels like this, src/ddp does not use this exchange at all but leaves the
// Reducer its own all-reduce (see plain_group.h). It serves single parameters beside compressed
// ones and the steps before compression starts.

#include <ATen/ATen.h>

#include "methods/registry.h"

namespace gradwire {
namespace {

// Types in which a sum of many gradients may overflow where their mean does not, and which Gloo
// sums with a rounding at every hop: they travel as fp32.
bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

// The slots' memory as one flat tensor, where they lie one behind the other in it and can travel as
// they are; else an undefined tensor.
at::Tensor as_one_range(const std::vector<Slot>& slots) {
  const at::Tensor& first = slots.front().memory;
  int64_t length = 0;
  for (const Slot& slot : slots) {
    const bool follows = slot.memory.is_contiguous() && slot.memory.is_alias_of(first) &&
                         slot.memory.storage_offset() == first.storage_offset() + length;
    if (!follows || is_half(slot.memory.scalar_type())) return {};
    length += slot.memory.numel();
  }
  return first.as_strided({length}, {1}, first.storage_offset());
}

class AllreduceExchange final : public Exchange {
 public:
  AllreduceExchange(std::vector<Slot> slots, const Step& step, BufferPool& buffers)
      : slots_(std::move(slots)), workers_(step.workers), buffers_(buffers) {}

  Round start() override {
    const at::ScalarType type = slots_.front().memory.scalar_type();
    const at::ScalarType payload_type = is_half(type) ? at::kFloat : type;
    payload_ = as_one_range(slots_);
    if (payload_.defined()) {
      payload_.mul_(1.0 / workers_);
      return {Collective::all_reduce_sum, payload_, payload_};
    }
    int64_t length = 0;
    for (const Slot& slot : slots_) length += slot.memory.numel();
    payload_ = buffers_.take(length, slots_.front().memory.options().dtype(payload_type));
    for_each_part(slots_, payload_, [&](const Slot& slot, const at::Tensor& part) {
      slot.write_share(part, workers_);
    });
    return {Collective::all_reduce_sum, payload_, payload_};
  }

  void finish() override {
    if (payload_.is_alias_of(slots_.front().memory)) return;
    for_each_part(slots_, payload_,
                  [](const Slot& slot, const at::Tensor& part) { slot.read_mean(part); });
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Slot& slot : slots_) {
      bytes.push_back(slot.memory.numel() * static_cast<int64_t>(payload_.element_size()));
    }
    return bytes;
  }

 private:
  std::vector<Slot> slots_;
  int workers_;
  BufferPool& buffers_;
  at::Tensor payload_;
};

// A sparse gradient is alone in its bucket, and the backend adds it up as it is.
class SparseAllreduceExchange final : public Exchange {
 public:
  SparseAllreduceExchange(at::Tensor gradient, int workers)
      : gradient_(std::move(gradient)), workers_(workers) {}

  Round start() override {
    bytes_ = wire_bytes(gradient_);
    return {Collective::all_reduce_sum, gradient_, gradient_};
  }
  void finish() override { gradient_.div_(workers_); }
  std::vector<int64_t> payload_bytes() const override { return {bytes_}; }

 private:
  at::Tensor gradient_;
  int workers_;
  int64_t bytes_ = 0;
};

class Allreduce final : public Method {
 public:
  std::unique_ptr<ParameterState> make_state(const Parameter& /*parameter*/,
                                             const OptionMap& /*options*/) const override {
    return nullptr;
  }
  bool carries_uncompressed() const override { return true; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    if (slots.front().memory.is_sparse()) {
      return std::make_unique<SparseAllreduceExchange>(slots.front().memory, step.workers);
    }
    return std::make_unique<AllreduceExchange>(std::move(slots), step, buffers_);
  }
};

}  // namespace

MethodEntry allreduce_method() {
  return {
      .name = "allreduce",
      .summary = "S-SGD: the mean of the gradients, uncompressed; what DDP does by itself",
      .options = {},
      .parameter_options = {},
      .create = [](const OptionMap&) -> std::unique_ptr<Method> {
        return std::make_unique<Allreduce>();
      },
      .facts = [](const OptionMap&) { return Facts{LossClass::exact}; },
      .models = {planner::plain_all_reduce()},
  };
}

}  // namespace gradwire
