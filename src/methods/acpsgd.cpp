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

#include "kernels/scan.h"
#include "methods/low_rank.h"
#include "methods/registry.h"

namespace gradwire {
namespace {

class AcpsgdExchange final : public Exchange {
 public:
  AcpsgdExchange(std::vector<Slot> slots, const Step& step)
      : workers_(step.workers), p_moves_(step.number % 2 == 1) {
    for (Slot& slot : slots) {
      auto* state = static_cast<LowRankState*>(slot.state);
      const int64_t length = state == nullptr
                                 ? slot.memory.numel()
                                 : (p_moves_ ? state->rows : state->columns) * state->rank;
      parts_.push_back({std::move(slot), state, total_, length, {}});
      total_ += length;
    }
  }

  Round start() override {
    payload_ = at::empty({total_}, parts_.front().slot.memory.options().dtype(at::kFloat));
    for (Part& part : parts_) {
      at::Tensor sent = payload_of(part);
      if (part.state == nullptr) {
        at::Tensor shaped = sent.view(part.slot.memory.sizes());
        at::mul_out(shaped, part.slot.memory.to(at::kFloat),
                    at::scalar_tensor(1.0 / workers_, sent.options()));
      } else {
        encode(part, sent);
      }
    }
    return {Collective::all_reduce_sum, payload_, payload_};
  }

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
    for (const Part& part : parts_)
      bytes.push_back(part.length * static_cast<int64_t>(sizeof(float)));
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    LowRankState* state;  // null: travels uncompressed
    int64_t offset;       // in the payload
    int64_t length;
    at::Tensor own;  // this worker's moving factor, as long as the residual may have to be restored
  };

  at::Tensor payload_of(const Part& part) const {
    return payload_.narrow(0, part.offset, part.length);
  }
  at::Tensor& moving(const Part& part) const { return p_moves_ ? part.state->p : part.state->q; }
  at::Tensor& fixed(const Part& part) const { return p_moves_ ? part.state->q : part.state->p; }

  // P Qᵀ with `factor` in the place of the moving one.
  at::Tensor product(const Part& part, const at::Tensor& factor) const {
    return p_moves_ ? factor.mm(part.state->q.t()) : part.state->p.mm(factor.t());
  }

  void encode(Part& part, at::Tensor& sent) const {
    orthonormalise(fixed(part));
    const LowRankState& state = *part.state;
    const at::Tensor gradient = part.slot.load().view({state.rows, state.columns});
    if (is_unused(gradient)) {
      sent.zero_();
      return;
    }
    const at::Tensor target = state.error.defined() ? gradient + state.error : gradient;
    const at::Tensor factor = p_moves_ ? target.mm(state.q) : target.t().mm(state.p);
    sent.copy_(factor.view(-1));
    // An inf or NaN anywhere in the gradient is one in the factor, and so in everyone's sum: all
    // see it in decode(). The residual is not touched, because inf - inf could not be undone.
    if (!at::isfinite(factor).all().item<bool>()) {
      sent.fill_(std::numeric_limits<float>::quiet_NaN());
      return;
    }
    if (state.error.defined()) {
      part.own = factor;
      at::sub_out(part.state->error, target, product(part, factor));
    }
  }

  void decode(Part& part, const at::Tensor& received) const {
    const at::Tensor factor = received.view_as(moving(part));
    at::Tensor result = part.slot.result();
    at::Tensor matrix = result.view({part.state->rows, part.state->columns});
    if (!at::isfinite(factor).all().item<bool>()) {
      restore_residual(part);
      matrix.fill_(std::numeric_limits<float>::quiet_NaN());
    } else {
      at::Tensor scaled = factor / workers_;
      if (p_moves_) {
        at::mm_out(matrix, scaled, part.state->q.t());
      } else {
        at::mm_out(matrix, part.state->p, scaled.t());
      }
      // A step in which no worker used the parameter says nothing about where its gradient lies.
      if (!is_unused(factor)) moving(part).copy_(factor);
    }
    part.slot.store(result);
  }

  // Some worker's gradient was not finite: as if the step had not been.
  void restore_residual(Part& part) const {
    if (!part.own.defined()) return;
    const at::Tensor gradient = part.slot.load().view_as(part.state->error);
    part.state->error.add_(product(part, part.own)).sub_(gradient);
  }

  static bool is_unused(const at::Tensor& values) {
    if (!values.is_cpu()) return !values.any().item<bool>();
    return kernels::all_zero({values.const_data_ptr<float>(), static_cast<size_t>(values.numel())});
  }

  int workers_;
  bool p_moves_;
  int64_t total_ = 0;
  std::vector<Part> parts_;
  at::Tensor payload_;
};

class Acpsgd final : public Method {
 public:
  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override {
    return make_low_rank_state(parameter, options);
  }
  bool carries_uncompressed() const override { return true; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<AcpsgdExchange>(std::move(slots), step);
  }
};

}  // namespace

MethodEntry acpsgd_method() {
  return {
      .name = "acpsgd",
      .summary = "ACP-SGD: one low-rank factor per step, P and Q in turn; a single all-reduce",
      .options = low_rank_options(),
      .parameter_options = {"rank", "min_ratio", "seed", "error_feedback"},
      .create = [](const OptionMap&) -> std::unique_ptr<Method> {
        return std::make_unique<Acpsgd>();
      },
  };
}

}  // namespace gradwire
