// ACP-SGD, the alternate compressed Power-SGD: a low-rank factor of the gradient per step, P and Q
// in turn, so that one all-reduce per bucket suffices and can start in backward.
//
//   P step:  Q = orthonormalise(Q) ;  P = (M+E) Q   ;  E = (M+E) − P Qᵀ    with this worker's own P
//            all-reduce sum P ;       result = P Qᵀ / N
//   Q step:  the same with the roles of P and Q exchanged: Q = (M+E)ᵀ P
//
// Below, the factor that travels in a step is the *moving* one, the other is *fixed*. Where factors
// are rounded, E is computed from the own factor as sent; the worker that rounds a slice of the
// mean keeps N times what this rounding has lost. So nothing is dropped.

#include <ATen/ATen.h>

#include <limits>

#include "methods/low_rank.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

class AcpsgdExchange final : public Exchange {
 public:
  AcpsgdExchange(const std::vector<Slot>& slots, const Step& step, FactorType type,
                 BufferPool& buffers)
      : workers_(step.workers), p_moves_(step.number % 2 == 1), type_(type) {
    std::vector<FactorShape> factors;
    int64_t uncompressed = 0;
    for (const Slot& slot : slots) {
      auto* state = static_cast<LowRankState*>(slot.state);
      parts_.push_back({slot, state, factors.size(), uncompressed});
      if (state == nullptr) {
        uncompressed += slot.memory.numel();
      } else {
        factors.push_back({p_moves_ ? state->rows : state->columns, state->rank});
      }
    }
    sum_ =
        make_factor_sum(type, factors, uncompressed, slots.front().memory.options(), step, buffers);
  }

  Round start() override {
    for (Part& part : parts_) {
      part.state == nullptr ? part.slot.write_share(numbers_of(part), workers_) : encode(part);
    }
    Round round = sum_->start();
    for (Part& part : parts_) {
      if (part.encoded) part.own = sum_->sent(part.factor);
    }
    return round;
  }

  std::optional<Round> complete_round() override { return sum_->complete_round(); }

  void finish() override {
    for (Part& part : parts_) {
      part.state == nullptr ? part.slot.read_mean(numbers_of(part)) : decode(part);
    }
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Part& part : parts_) {
      bytes.push_back(part.state == nullptr
                          ? wire_bytes(numbers_of(part))
                          : factor_bytes(type_, moving(part).size(0), part.state->rank));
    }
    share_overhead(sum_->padding_bytes(), bytes);
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    LowRankState* state;    // null: travels uncompressed
    size_t factor;          // of the sum, if compressed
    int64_t first_number;   // of the sum, if not
    bool encoded = false;   // the residual holds this step's gradient
    at::Tensor basis = {};  // the fixed factor, orthonormalised; kept if the step counts
    at::Tensor own = {};    // this worker's moving factor, as it travels
  };

  at::Tensor numbers_of(const Part& part) const {
    return sum_->numbers().narrow(0, part.first_number, part.slot.memory.numel());
  }
  at::Tensor& moving(const Part& part) const { return p_moves_ ? part.state->p : part.state->q; }
  at::Tensor& fixed(const Part& part) const { return p_moves_ ? part.state->q : part.state->p; }
  FactorPair pair(const at::Tensor& moving, const at::Tensor& fixed) const {
    return p_moves_ ? FactorPair{moving, fixed} : FactorPair{fixed, moving};
  }

  void encode(Part& part) {
    LowRankState& state = *part.state;
    part.basis = state.orthonormalised(fixed(part));
    const at::Tensor gradient = state.as_matrix(part.slot.load());
    at::Tensor own = at::empty_like(moving(part));
    if (state.code.is_zero(gradient)) {
      own.zero_();
    } else {
      part.encoded = state.encode(p_moves_ ? Side::left : Side::right, gradient, part.basis, own);
      // One NaN here is a NaN in everyone's sum: all see it in decode().
      if (!part.encoded) own.fill_(std::numeric_limits<float>::quiet_NaN());
    }
    sum_->put(part.factor, own);
  }

  void decode(Part& part) {
    LowRankState& state = *part.state;
    const at::Tensor factor = sum_->sum(part.factor);
    const at::Tensor result = part.slot.result();
    if (!state.code.all_finite(factor)) {
      // Some worker's gradient was not finite.
      if (part.encoded) state.roll_back(part.slot);
      result.fill_(std::numeric_limits<float>::quiet_NaN());
    } else {
      const at::Tensor arrived = sum_->arrived(part.factor, part.own);
      if (arrived.defined()) state.subtract(pair(arrived, part.basis));
      state.code.low_rank.multiply_factors(pair(factor, part.basis), 1.0 / workers_,
                                           state.as_matrix(result));
      fixed(part) = part.basis;
      // A step in which no worker used the parameter says nothing about where its gradient lies.
      if (!state.code.is_zero(factor)) moving(part) = factor.clone();
    }
    part.slot.store(result);
  }

  int workers_;
  bool p_moves_;
  FactorType type_;
  std::vector<Part> parts_;
  std::unique_ptr<FactorSum> sum_;
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
      .summary = "ACP-SGD: one low-rank factor per step, P and Q in turn; a single sum",
      .options = low_rank_options(64),
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
