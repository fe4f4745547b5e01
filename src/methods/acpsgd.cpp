// ACP-SGD, the alternate compressed Power-SGD: a low-rank factor of the gradient per step, P and Q
// in turn, so that one all-reduce per bucket suffices and can start in backward.
//
//   P step:  Q = orthonormalise(Q) ;  P = (M+E) Q   ;  E = (M+E) − P Qᵀ    with this worker's own P
//            all-reduce sum P ;       result = P Qᵀ / N
//   Q step:  the same with the roles of P and Q exchanged: Q = (M+E)ᵀ P
//
// Below, the factor that travels in a step is the *moving* one, the other is *fixed*.

#include <ATen/ATen.h>

#include <limits>

#include "methods/factor_sum.h"
#include "methods/low_rank.h"
#include "methods/overhead.h"
#include "methods/registry.h"
#include "methods/zero_gradient.h"

namespace gradwire {
namespace {

class AcpsgdExchange final : public Exchange {
 public:
  AcpsgdExchange(const std::vector<Slot>& slots, const Step& step, bool bf16, BufferPool& buffers)
      : step_(step), p_moves_(step.number % 2 == 1), bf16_(bf16) {
    int64_t total = 0;
    for (const Slot& slot : slots) {
      auto* state = static_cast<LowRankState*>(slot.state);
      const int64_t length = state == nullptr
                                 ? slot.memory.numel()
                                 : (p_moves_ ? state->rows : state->columns) * state->rank;
      parts_.push_back({slot, state, total, length, false});
      total += length;
    }
    sum_.emplace(total, slots.front().memory.options(), step, bf16, buffers);
  }

  Round start() override {
    for (Part& part : parts_) {
      at::Tensor sent = payload_of(part);
      if (part.state == nullptr) {
        at::Tensor shaped = sent.view(part.slot.memory.sizes());
        at::mul_out(shaped, part.slot.memory.to(at::kFloat),
                    at::scalar_tensor(1.0 / step_.workers, sent.options()));
      } else {
        encode(part, sent);
      }
    }
    return sum_->start();
  }

  std::optional<Round> complete_round() override { return sum_->complete_round(); }

  void finish() override {
    for (Part& part : parts_) {
      const at::Tensor received = payload_of(part);
      if (part.state == nullptr) {
        part.slot.memory.copy_(received.view(part.slot.memory.sizes()));
      } else {
        decode(part, received);
      }
    }
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Part& part : parts_) bytes.push_back(FactorSum::bytes(part.length, bf16_));
    share_overhead(sum_->padding_bytes(), bytes);
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    LowRankState* state;  // null: travels uncompressed
    int64_t offset;       // in the payload
    int64_t length;
    bool encoded;           // the residual holds this step's gradient
    at::Tensor basis = {};  // the fixed factor, orthonormalised; kept if the step counts
  };

  at::Tensor payload_of(const Part& part) {
    return sum_->values().narrow(0, part.offset, part.length);
  }
  at::Tensor& moving(const Part& part) const { return p_moves_ ? part.state->p : part.state->q; }
  at::Tensor& fixed(const Part& part) const { return p_moves_ ? part.state->q : part.state->p; }

  void encode(Part& part, at::Tensor& sent) const {
    LowRankState& state = *part.state;
    part.basis = orthonormalised(fixed(part));
    const at::Tensor gradient = state.as_matrix(part.slot.load());
    if (is_zero(gradient)) {
      sent.zero_();
      return;
    }
    at::Tensor own = at::empty_like(moving(part));
    part.encoded = p_moves_ ? state.matrix->encode_left(gradient, part.basis, own)
                            : state.matrix->encode_right(gradient, part.basis, own);
    if (!part.encoded) {
      // One NaN here is a NaN in everyone's sum: all see it in decode().
      sent.fill_(std::numeric_limits<float>::quiet_NaN());
      return;
    }
    // What is subtracted is the factor as it travels.
    if (bf16_) own = own.to(at::kBFloat16).to(at::kFloat);
    sent.copy_(own.view(-1));
    p_moves_ ? state.subtract(own, part.basis) : state.subtract(part.basis, own);
  }

  void decode(Part& part, const at::Tensor& received) const {
    LowRankState& state = *part.state;
    const at::Tensor factor = received.view_as(moving(part));
    at::Tensor result = part.slot.result();
    if (!all_finite(factor)) {
      if (part.encoded) restore_residual(part);
      result.fill_(std::numeric_limits<float>::quiet_NaN());
    } else {
      at::Tensor matrix = state.as_matrix(result);
      multiply_factors(p_moves_ ? factor : part.basis, p_moves_ ? part.basis : factor,
                       1.0 / step_.workers, matrix);
      fixed(part) = part.basis;
      // A step in which no worker used the parameter says nothing about where its gradient lies.
      if (!is_zero(factor)) moving(part) = factor.clone();
    }
    part.slot.store(result);
  }

  // Some worker's gradient was not finite: as if the step had not been.
  static void restore_residual(Part& part) {
    part.state->cancel(part.state->as_matrix(part.slot.load()));
  }

  Step step_;
  bool p_moves_;
  bool bf16_;
  std::vector<Part> parts_;
  std::optional<FactorSum> sum_;
};

class Acpsgd final : public Method {
 public:
  explicit Acpsgd(const OptionMap& options)
      : bf16_(std::get<std::string>(options.at("dtype")) == "bf16") {}

  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override {
    return make_low_rank_state(parameter, options);
  }
  int rounds() const override { return FactorSum::rounds(bf16_); }
  bool carries_uncompressed() const override { return !bf16_; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<AcpsgdExchange>(slots, step, bf16_, buffers_);
  }

 private:
  bool bf16_;
};

}  // namespace

MethodEntry acpsgd_method() {
  return {
      .name = "acpsgd",
      .summary = "ACP-SGD: one low-rank factor per step, P and Q in turn; a single all-reduce",
      .options = low_rank_options(),
      .parameter_options = kLowRankParameterOptions,
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        return std::make_unique<Acpsgd>(options);
      },
  };
}

}  // namespace gradwire
