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
#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/sign.h"
#include "kernels/roll_back.h"
#include "methods/device_path.h"
#include "methods/overhead.h"
#include "methods/sign.h"
#include "methods/zero_gradient.h"
#include "wire/payload.h"

namespace gradwire {
namespace {

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

std::span<float> mutable_values_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// Calls function(piece, first element, number of elements), in parallel for large parameters.
template <typename Function>
void for_each_piece(int64_t elements, const Function& function) {
  at::parallel_for(0, sign_pieces(elements), 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece * kSignPiece;
      function(static_cast<size_t>(piece), static_cast<size_t>(first),
               static_cast<size_t>(std::min(kSignPiece, elements - first)));
    }
  });
}

class SignState final : public ParameterState {
 public:
  SignState(const at::Tensor& parameter, bool error_feedback)
      : kernels(takes_kernels(parameter)),
        total(error_feedback ? at::zeros(parameter.sizes(),
                                         parameter.options().dtype(at::kFloat).requires_grad(false))
                             : at::Tensor()) {}

  // A copy where something is pending: a step under way may still have to be undone.
  at::Tensor residual() const override {
    if (!total.defined() || pending == 0) return total;
    return total - signed_scale(total >= 0, pending);
  }

  std::vector<StateTensor> tensors() override {
    if (!total.defined()) return {};
    settle();
    return {{"residual", StateTensor::Role::residual, total}};
  }

  void settle() {
    if (pending == 0) return;
    if (kernels) {
      kernels::settle_residual(mutable_values_of(total), pending);
    } else {
      total.copy_(residual());
    }
    pending = 0;
  }

  bool kernels;
  at::Tensor total;   // G of the last step; undefined without error feedback
  float pending = 0;  // the residual is total - pending * sign(total)
};

// Without error feedback G is the gradient. It goes through the same kernel, block by block, with
// nothing as the residual.
size_t encode_without_residual(std::span<const float> gradient, std::span<uint8_t> bits,
                               std::span<double> block_sums) {
  for (size_t first = 0; first < gradient.size(); first += kernels::kSignBlock) {
    float nothing[kernels::kSignBlock] = {};
    const size_t count = std::min(kernels::kSignBlock, gradient.size() - first);
    const size_t encoded =
        kernels::encode_signs(gradient.subspan(first, count), {nothing, count}, 0,
                              bits.subspan(first / 8, kernels::sign_bytes(count)),
                              block_sums.subspan(first / kernels::kSignBlock, 1));
    if (encoded != count) return first;
  }
  return gradient.size();
}

// Writes the signs of G and returns the scale, or nothing if G is not finite: the state is then
// what it was.
std::optional<float> encode_by_kernel(SignState& state, const at::Tensor& gradient,
                                      std::span<uint8_t> bits) {
  const int64_t elements = gradient.numel();
  const std::span<const float> values = values_of(gradient);
  const bool feedback = state.total.defined();
  const std::span<float> total = feedback ? mutable_values_of(state.total) : std::span<float>();
  std::vector<double> block_sums(kernels::sign_blocks(values.size()));
  std::vector<size_t> encoded(sign_pieces(elements));
  for_each_piece(elements, [&](size_t piece, size_t first, size_t count) {
    const auto piece_bits = bits.subspan(first / 8, kernels::sign_bytes(count));
    const auto sums =
        std::span(block_sums).subspan(first / kernels::kSignBlock, kernels::sign_blocks(count));
    encoded[piece] =
        feedback ? kernels::encode_signs(values.subspan(first, count), total.subspan(first, count),
                                         state.pending, piece_bits, sums)
                 : encode_without_residual(values.subspan(first, count), piece_bits, sums);
  });
  size_t all = 0;
  for (const size_t count : encoded) all += count;
  if (all == values.size()) {
    return static_cast<float>(kernels::sum_blocks(block_sums) / static_cast<double>(elements));
  }
  if (feedback) {
    for_each_piece(elements, [&](size_t piece, size_t first, size_t count) {
      const size_t done = encoded[piece];
      kernels::roll_back(values.subspan(first, done), total.subspan(first, done));
      kernels::settle_residual(total.subspan(first + done, count - done), state.pending);
    });
    state.pending = 0;
  }
  return std::nullopt;
}

// The same in ATen ops.
std::optional<float> encode_by_aten(SignState& state, const at::Tensor& gradient,
                                    std::span<uint8_t> bits) {
  const bool feedback = state.total.defined();
  const at::Tensor total = feedback ? gradient + state.residual() : gradient;
  const double sum = total.abs().sum(at::kDouble).item<double>();
  if (!std::isfinite(sum)) return std::nullopt;
  const at::Tensor packed = pack_bits(total >= 0).cpu();
  std::memcpy(bits.data(), packed.const_data_ptr(), bits.size());
  if (feedback) state.total.copy_(total);
  return static_cast<float>(sum / static_cast<double>(gradient.numel()));
}

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
    if (is_zero(gradient)) {
      writer.abstain();
      return;
    }
    const std::span<std::byte> bits = writer.begin_sign(gradient.numel());
    const auto encode_signs = part.state->kernels ? encode_by_kernel : encode_by_aten;
    const std::optional<float> scale =
        encode_signs(*part.state, gradient, {reinterpret_cast<uint8_t*>(bits.data()), bits.size()});
    if (!scale) {
      writer.non_finite();
      return;
    }
    writer.end(*scale);
    if (part.state->total.defined()) part.state->pending = *scale;
    part.contributes = true;
  }

  void decode(Part& part, const std::vector<wire::SignRecord>& records,
              const std::byte* received) const {
    const at::Tensor result = part.slot.result();
    if (!is_finite(records)) {
      undo(part);
      result.fill_(std::numeric_limits<float>::quiet_NaN());
    } else if (part.state->kernels) {
      decode_by_kernel(records, result);
    } else {
      decode_by_aten(records, received, result);
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
  static void undo(const Part& part) {
    SignState& state = *part.state;
    if (!part.contributes || !state.total.defined()) return;
    const at::Tensor gradient = part.slot.load();
    if (state.kernels) {
      for_each_piece(gradient.numel(), [&](size_t /*piece*/, size_t first, size_t count) {
        kernels::roll_back(values_of(gradient).subspan(first, count),
                           mutable_values_of(state.total).subspan(first, count));
      });
    } else {
      state.total.sub_(gradient);
    }
    state.pending = 0;
  }

  void decode_by_kernel(const std::vector<wire::SignRecord>& records,
                        const at::Tensor& result) const {
    const std::span<float> values = mutable_values_of(result);
    const float factor = 1.0F / static_cast<float>(workers_);
    for_each_piece(result.numel(), [&](size_t /*piece*/, size_t first, size_t count) {
      std::vector<kernels::SignPayload> payloads;
      for (const wire::SignRecord& record : records) {
        if (record.contribution != wire::Contribution::present) continue;
        const auto* bits = reinterpret_cast<const uint8_t*>(record.bits.data());
        payloads.push_back({bits + first / 8, record.scale});
      }
      kernels::decode_signs(payloads, factor, values.subspan(first, count));
    });
  }

  void decode_by_aten(const std::vector<wire::SignRecord>& records, const std::byte* received,
                      const at::Tensor& result) const {
    at::Tensor flat = result.view(-1);
    flat.zero_();
    for (const wire::SignRecord& record : records) {
      if (record.contribution != wire::Contribution::present) continue;
      const at::Tensor bits = received_.narrow(0, record.bits.data() - received,
                                               static_cast<int64_t>(record.bits.size()));
      flat += signed_scale(unpack_bits(bits, flat.numel()), record.scale);
    }
    flat *= 1.0F / static_cast<float>(workers_);
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
