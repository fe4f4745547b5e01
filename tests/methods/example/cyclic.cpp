// One block of every gradient per step, and the next block in the next step, with error feedback.
//
//   the n elements of a parameter are blocks of k = max(1, floor(density · n + 0.5)) elements, the
//   last of which may be short; step t sends block number (t − 1) mod ⌈n / k⌉
//
//   G = g + E ;  send G in the block ;  result = sum over the workers / N there, 0 elsewhere
//   E = G, and 0 in the block
//
// All workers send the same block, so no positions travel and an all-reduce adds the values up.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

class CyclicState final : public ParameterState {
 public:
  CyclicState(const at::Tensor& parameter, double density)
      : ParameterState(parameter.device()),
        error(at::zeros(parameter.sizes(),
                        parameter.options().dtype(at::kFloat).requires_grad(false))) {
    const double wanted = std::floor(density * static_cast<double>(parameter.numel()) + 0.5);
    block = std::max<int64_t>(1, static_cast<int64_t>(wanted));
  }

  std::vector<StateTensor> tensors() override {
    return {{"residual", StateTensor::Role::residual, error}};
  }
  at::Tensor residual() const override { return error; }

  at::Tensor error;  // in the parameter's shape
  int64_t block;     // elements that travel in one step
};

class CyclicExchange final : public Exchange {
 public:
  CyclicExchange(const std::vector<Slot>& slots, const Step& step, BufferPool& buffers)
      : workers_(step.workers) {
    int64_t total = 0;
    for (const Slot& slot : slots) {
      auto* state = static_cast<CyclicState*>(slot.state);
      const int64_t elements = slot.memory.numel();
      const int64_t blocks = (elements + state->block - 1) / state->block;
      const int64_t first = (step.number - 1) % blocks * state->block;
      const int64_t length = std::min(state->block, elements - first);
      parts_.push_back({slot, state->error.view(-1), first, length, total});
      total += length;
    }
    payload_ = buffers.take(total, slots.front().memory.options().dtype(at::kFloat));
  }

  Round start() override {
    for (const Part& part : parts_) encode(part);
    return {Collective::all_reduce_sum, payload_, payload_};
  }

  void finish() override {
    for (const Part& part : parts_) decode(part);
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Part& part : parts_) bytes.push_back(4 * part.length);
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    at::Tensor error;  // flat
    int64_t first;     // of the block's elements
    int64_t length;    // of the block
    int64_t offset;    // in the payload

    at::Tensor block_of(const at::Tensor& flat) const { return flat.narrow(0, first, length); }
    const DeviceCode& code() const { return slot.state->code; }
  };

  at::Tensor payload_of(const Part& part) const {
    return payload_.narrow(0, part.offset, part.length);
  }

  void encode(const Part& part) const {
    const at::Tensor gradient = part.slot.load().view(-1);
    at::Tensor sent = payload_of(part);
    if (part.code().is_zero(gradient)) {
      sent.zero_();  // a parameter that was not used here
    } else if (part.code().all_finite(gradient)) {
      at::add_out(sent, part.block_of(gradient), part.block_of(part.error));
    } else {
      // One NaN here is a NaN in everyone's sum: all see it in decode().
      sent.fill_(std::numeric_limits<float>::quiet_NaN());
    }
  }

  // The bucket still holds the gradient, and the residual is as before the step: only now is it
  // known whether the step counts.
  void decode(const Part& part) const {
    const at::Tensor sum = payload_of(part);
    at::Tensor result = part.slot.result();
    if (part.code().all_finite(sum)) {
      const at::Tensor gradient = part.slot.load().view(-1);
      if (!part.code().is_zero(gradient)) {
        part.error.add_(gradient);
        part.block_of(part.error).zero_();
      }
      result.zero_();
      part.block_of(result.view(-1)).copy_(sum).div_(workers_);
    } else {
      result.fill_(std::numeric_limits<float>::quiet_NaN());
    }
    part.slot.store(result);
  }

  int workers_;
  std::vector<Part> parts_;
  at::Tensor payload_;
};

class Cyclic final : public Method {
 public:
  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override {
    return std::make_unique<CyclicState>(parameter.tensor, std::get<double>(options.at("density")));
  }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<CyclicExchange>(slots, step, buffers_);
  }
};

planner::BucketCost cyclic_cost(const planner::BucketView& bucket) {
  return planner::one_round(planner::Collective::all_reduce,
                            bucket.option("density") * bucket.bytes(), bucket.encode(),
                            bucket.decode());
}

}  // namespace

MethodEntry cyclic_method() {
  return {
      .name = "cyclic",
      .summary = "one block of every gradient per step, the next one in the next step",
      .options = {number_option("density", 0.1, 0, 1, /*open_below=*/true)},
      .parameter_options = {"density"},
      .create = [](const OptionMap&) -> std::unique_ptr<Method> {
        return std::make_unique<Cyclic>();
      },
      .facts =
          [](const OptionMap&) {
            return Facts{.loss_class = LossClass::delayed, .keeps_residual = true};
          },
      .variants = {{"cyclic-halves", {{"density", 0.5}}}},
      .models = {{.name = "cyclic",
                  .colour = "#7b3294",
                  .loss = 4.5,  // as much as topk, but not the largest elements
                  .options = {{"density", 0.1, 1e-6, 1, "between 1e-6 and 1",
                               "part of the elements that travel"}},
                  .kernels = {.encode = 2, .decode = 6},
                  .tensor_operations = {.encode = 2, .decode = 6},
                  .cost = cyclic_cost}},
  };
}

}  // namespace gradwire
