// Sign-SGD with error feedback (mode "ef"):
//
//   G = g + E ;  send the signs of G and one scale, the mean of |G|
//   result = mean over workers of scale · sign ;  E = G − scale · sign(G)    with the own scale
//
// One round, an all-gather of one payload per worker (docs/wire_format.md). Its size follows from
// the shapes: a record that turns out shorter, because the worker abstains or its gradient is not
// finite, leaves zeros at the end.
//
// E needs the scale, which is known only when all of G is. So the state holds G itself and the
// scale as *pending*, and the next step settles E while it reads it: one pass over memory instead
// of two.

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "methods/method.h"
#include "wire/payload.h"

namespace gradwire {
namespace {

class SignState final : public ParameterState {
 public:
  SignState(const at::Tensor& parameter, bool error_feedback)
      : ParameterState(parameter.device()), total(zero_residual(parameter, error_feedback)) {}

  // A copy where something is pending: a step under way may still have to be rolled back.
  at::Tensor residual() const override {
    if (!total.defined() || pending == 0) return total;
    at::Tensor settled = total.clone();
    code.sign.settle(settled, pending);
    return settled;
  }

  std::vector<StateTensor> tensors() override {
    if (!total.defined()) return {};
    if (pending != 0) code.sign.settle(total, std::exchange(pending, 0));
    return {{"residual", StateTensor::Role::residual, total}};
  }

  at::Tensor total;   // G of the last step; undefined without error feedback
  float pending = 0;  // the residual is total - pending * sign(total)
};

class SignFeedbackExchange final : public Exchange {
 public:
  SignFeedbackExchange(std::vector<Slot> slots, const Step& step, BufferPool& buffers)
      : workers_(step.workers), buffers_(buffers) {
    for (Slot& slot : slots) {
      auto* state = static_cast<SignState*>(slot.state);
      size_ += static_cast<int64_t>(wire::sign_bound(slot.memory.numel()));
      parts_.push_back({std::move(slot), state, false});
    }
  }

  Round start() override {
    const at::Device device = parts_.front().slot.memory.device();
    const at::Tensor payload = buffers_.take(size_, at::kByte);
    const std::span bytes(static_cast<std::byte*>(payload.data_ptr()), static_cast<size_t>(size_));
    wire::PayloadWriter writer(bytes, wire::Method::sign);
    for (Part& part : parts_) encode(part, writer);
    const size_t needed = writer.finish(/*contributors=*/1);
    std::memset(bytes.data() + needed, 0, bytes.size() - needed);
    received_ = buffers_.take(size_ * workers_, payload.options().device(device));
    return {Collective::all_gather, payload.to(device), received_};
  }

  void finish() override {
    const at::Tensor on_host = received_.cpu();
    const auto* bytes = static_cast<const std::byte*>(on_host.const_data_ptr());
    std::vector<wire::PayloadReader> readers;
    readers.reserve(workers_);
    for (int worker = 0; worker < workers_; ++worker) {
      readers.emplace_back(std::span(bytes + worker * size_, static_cast<size_t>(size_)),
                           wire::Method::sign, static_cast<uint32_t>(parts_.size()));
    }
    for (Part& part : parts_) {
      std::vector<wire::SignRecord> records;
      records.reserve(workers_);
      for (wire::PayloadReader& reader : readers) {
        records.push_back(reader.sign(part.slot.memory.numel()));
      }
      decode(part, records, bytes);
    }
    for (const wire::PayloadReader& reader : readers) reader.finish();
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Part& part : parts_) {
      bytes.push_back(static_cast<int64_t>(wire::sign_bound(part.slot.memory.numel())));
    }
    share_overhead(wire::kHeaderBytes, bytes);
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    SignState* state;
    bool contributes;  // its gradient is in state->total
  };

  static void encode(Part& part, wire::PayloadWriter& writer) {
    const at::Tensor gradient = part.slot.load();
    SignState& state = *part.state;
    if (state.code.is_zero(gradient)) return writer.abstain();
    const std::span<std::byte> bits = writer.begin_sign(gradient.numel());
    const std::optional<float> scale =
        state.code.sign.encode(gradient, state.total, state.pending,
                               {reinterpret_cast<uint8_t*>(bits.data()), bits.size()});
    if (state.total.defined()) state.pending = scale.value_or(0);
    part.contributes = scale.has_value();
    scale ? writer.end(*scale) : writer.non_finite();
  }

  void decode(Part& part, const std::vector<wire::SignRecord>& records,
              const std::byte* received) const {
    const at::Tensor result = part.slot.result();
    if (is_finite(records)) {
      std::vector<SignContribution> present;
      for (const wire::SignRecord& record : records) {
        if (record.contribution != wire::Contribution::present) continue;
        present.push_back({record.bits, record.bits.data() - received, record.scale});
      }
      part.state->code.sign.decode(present, received_, 1.0F / static_cast<float>(workers_), result);
    } else {
      roll_back(part);
      result.fill_(std::numeric_limits<float>::quiet_NaN());
    }
    part.slot.store(result);
  }

  // Scales whose sum would overflow count as a gradient that is not finite: their mean would not be
  // either.
  static bool is_finite(const std::vector<wire::SignRecord>& records) {
    float sum = 0;
    for (const wire::SignRecord& record : records) {
      if (record.contribution == wire::Contribution::non_finite) return false;
      sum += record.scale;
    }
    return std::isfinite(sum);
  }

  // As if the step had not been. The slot still holds this worker's gradient.
  static void roll_back(const Part& part) {
    SignState& state = *part.state;
    if (!part.contributes || !state.total.defined()) return;
    state.code.roll_back(part.slot.load(), state.total);
    state.pending = 0;
  }

  int workers_;
  BufferPool& buffers_;
  int64_t size_ = wire::kHeaderBytes;  // of one worker's payload
  std::vector<Part> parts_;
  at::Tensor received_;
};

class SignFeedback final : public Method {
 public:
  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override {
    return std::make_unique<SignState>(parameter.tensor,
                                       std::get<bool>(options.at("error_feedback")));
  }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<SignFeedbackExchange>(std::move(slots), step, buffers_);
  }
};

}  // namespace

std::unique_ptr<Method> make_sign_feedback() { return std::make_unique<SignFeedback>(); }

}  // namespace gradwire
