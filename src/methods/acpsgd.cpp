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

#include "methods/low_rank.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

class AcpsgdExchange final : public Exchange {
 public:
  AcpsgdExchange(const std::vector<Slot>& slots, const Step& step, bool bf16, BufferPool& buffers)
      : workers_(step.workers), p_moves_(step.number % 2 == 1), bf16_(bf16) {
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
      const at::Tensor sent = payload_of(part);
      part.state == nullptr ? part.slot.write_share(sent, workers_) : encode(part, sent);
    }
    return sum_->start();
  }

  std::optional<Round> complete_round() override { return sum_->complete_round(); }

  void finish() override {
    for (Part& part : parts_) {
      const at::Tensor received = payload_of(part);
      part.state == nullptr ? part.slot.read_mean(received) : decode(part, received);
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

  void encode(Part& part, const at::Tensor& sent) const {
    LowRankState& state = *part.state;
    part.basis = state.orthonormalised(fixed(part));
    const at::Tensor gradient = state.as_matrix(part.slot.load());
    if (state.code.is_zero(gradient)) {
      sent.zero_();
      return;
    }
    at::Tensor own = at::empty_like(moving(part));
    part.encoded = state.encode(p_moves_ ? Side::left : Side::right, gradient, part.basis, own);
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
    const at::Tensor result = part.slot.result();
    if (!state.code.all_finite(factor)) {
      // Some worker's gradient was not finite.
      if (part.encoded) state.roll_back(part.slot);
      result.fill_(std::numeric_limits<float>::quiet_NaN());
    } else {
      state.code.low_rank.multiply_factors(
          p_moves_ ? FactorPair{factor, part.basis} : FactorPair{part.basis, factor},
          1.0 / workers_, state.as_matrix(result));
      fixed(part) = part.basis;
      // A step in which no worker used the parameter says nothing about where its gradient lies.
      if (!state.code.is_zero(factor)) moving(part) = factor.clone();
    }
    part.slot.store(result);
  }

  int workers_;
  bool p_moves_;
  bool bf16_;
  std::vector<Part> parts_;
  std::optional<FactorSum> sum_;
};

using Acpsgd = LowRankMethod<AcpsgdExchange, 1>;

// Products: the moving factor and what it leaves in the residual; then the result.
planner::BucketCost acpsgd_cost(const planner::BucketView& bucket) {
  const planner::LowRankSums sums = planner::low_rank_sums(bucket);
  const bool p_moves = bucket.kind_of_step() == 0;
  const double orthonormalise =
      p_moves ? sums.orthonormalise_q_operations : sums.orthonormalise_p_operations;
  return planner::one_round(planner::Collective::all_reduce,
                            sums.uncompressed_bytes + (p_moves ? sums.p_bytes : sums.q_bytes),
                            bucket.encode(2 * sums.product_operations + orthonormalise),
                            bucket.decode(sums.product_operations));
}

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
      .facts = low_rank_facts,
      .variants = low_rank_variants("acpsgd"),
      .models = {{.name = "acpsgd",
                  .colour = "#d55e00",
                  .loss = 3,
                  .options = planner::low_rank_options(),
                  .kernels = {.encode = 4.8, .decode = 2},
                  .tensor_operations = {.encode = 9, .decode = 3},
                  .kinds_of_steps = 2,
                  .cost = acpsgd_cost}},
  };
}

}  // namespace gradwire
