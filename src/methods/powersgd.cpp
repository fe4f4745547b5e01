// Power-SGD: both low-rank factors in every step, the second computed from the first.
//
//   A = M + E
//   P = A Q ;       all-reduce P ;  P = orthonormalise(P)
//   Q = Aᵀ P ;      all-reduce mean Q
//   result = P Qᵀ ; E = A − P Qᵀ
//
// Q is warm-started from the previous step. A worker that does not use the parameter in this step
// sends zeros and keeps its E; the C workers that do take N/C of the result out of theirs, so that
// nothing is counted twice or lost. That is why each P travels with a count of its contributors.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "methods/low_rank.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

// The factor times a power of two. Only its directions matter to the next step, whose A Q would
// otherwise leave the range of fp32 where gradients are larger than 1e19 or smaller than 1e-19.
at::Tensor with_largest_near_one(const at::Tensor& factor) {
  int exponent = 0;
  std::frexp(factor.abs().amax().item<float>(), &exponent);
  return factor * std::ldexp(1.0, -std::clamp(exponent, -100, 100));
}

class PowersgdExchange final : public Exchange {
 public:
  PowersgdExchange(const std::vector<Slot>& slots, const Step& step, bool bf16, BufferPool& buffers)
      : workers_(step.workers), bf16_(bf16) {
    int64_t first = 0;
    int64_t second = 0;
    for (const Slot& slot : slots) {
      auto* state = static_cast<LowRankState*>(slot.state);
      const int64_t length = state == nullptr ? slot.memory.numel() : state->rows * state->rank + 1;
      parts_.push_back({slot, state, first, length, second});
      first += length;
      if (state != nullptr) second += state->columns * state->rank;
    }
    const at::TensorOptions options = slots.front().memory.options();
    p_sum_.emplace(first, options, step, bf16, buffers);
    q_sum_.emplace(second, options, step, bf16, buffers);
  }

  Round start() override {
    for (Part& part : parts_) {
      const at::Tensor sent = first_payload_of(part);
      part.state == nullptr ? part.slot.write_share(sent, workers_) : encode_p(part, sent);
    }
    return p_sum_->start();
  }

  std::optional<Round> complete_round() override {
    if (p_is_summed_) return q_sum_->complete_round();
    if (auto round = p_sum_->complete_round()) return round;
    p_is_summed_ = true;
    if (q_sum_->values().numel() == 0) return std::nullopt;
    for (Part& part : parts_) {
      if (part.state != nullptr) encode_q(part);
    }
    return q_sum_->start();
  }

  void finish() override {
    for (Part& part : parts_) {
      part.state == nullptr ? part.slot.read_mean(first_payload_of(part)) : decode(part);
    }
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Part& part : parts_) {
      const int64_t q_length = part.state == nullptr ? 0 : part.state->columns * part.state->rank;
      bytes.push_back(FactorSum::bytes(part.p_length + q_length, bf16_));
    }
    share_overhead(p_sum_->padding_bytes() + q_sum_->padding_bytes(), bytes);
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    LowRankState* state;      // null: travels uncompressed
    int64_t p_offset;         // in the first payload
    int64_t p_length;         // P and the count of contributors
    int64_t q_offset;         // in the second payload
    bool encoded = false;     // the residual holds A
    bool finite = true;       // so far, on every worker
    double contributors = 0;  // workers that used the parameter
    at::Tensor p = {};        // the common one, orthonormal
  };

  at::Tensor first_payload_of(const Part& part) {
    return p_sum_->values().narrow(0, part.p_offset, part.p_length);
  }
  at::Tensor q_of(const Part& part) {
    const LowRankState& state = *part.state;
    return q_sum_->values()
        .narrow(0, part.q_offset, state.columns * state.rank)
        .view({state.columns, state.rank});
  }

  static void encode_p(Part& part, const at::Tensor& sent) {
    LowRankState& state = *part.state;
    const at::Tensor gradient = state.as_matrix(part.slot.load());
    sent.zero_();
    if (state.code.is_zero(gradient)) return;
    const at::Tensor p = sent.narrow(0, 0, part.p_length - 1).view_as(state.p);
    part.encoded = state.encode(Side::left, gradient, state.q, p);
    // One NaN here is a NaN in everyone's sum: all see it in encode_q().
    part.encoded ? sent.narrow(0, part.p_length - 1, 1).fill_(1)
                 : sent.fill_(std::numeric_limits<float>::quiet_NaN());
  }

  void encode_q(Part& part) {
    LowRankState& state = *part.state;
    const at::Tensor received = first_payload_of(part);
    const at::Tensor q = q_of(part);
    q.zero_();
    part.finite = state.code.all_finite(received);
    if (!part.finite) {
      roll_back(part);
      return;
    }
    part.contributors = received[part.p_length - 1].item<double>();
    if (part.contributors == 0) return;
    part.p = state.orthonormalised(received.narrow(0, 0, part.p_length - 1).view_as(state.p));
    if (part.encoded) state.multiply_transposed(part.p, q);
  }

  void decode(Part& part) {
    LowRankState& state = *part.state;
    const at::Tensor result = part.slot.result();
    if (part.finite && part.contributors > 0) {
      const at::Tensor q = q_of(part) / workers_;
      part.finite = state.code.all_finite(q);
      if (part.finite) {
        if (part.encoded) state.subtract(part.p, q * (workers_ / part.contributors));
        state.code.low_rank.multiply_factors({part.p, q}, 1.0, state.as_matrix(result));
        state.p = part.p;
        state.q = with_largest_near_one(q);
      } else {
        roll_back(part);
      }
    } else if (part.finite) {
      result.zero_();
    }
    if (!part.finite) result.fill_(std::numeric_limits<float>::quiet_NaN());
    part.slot.store(result);
  }

  // Some worker's gradient was not finite.
  static void roll_back(Part& part) {
    if (part.encoded) part.state->roll_back(part.slot);
    part.encoded = false;
  }

  int workers_;
  bool bf16_;
  std::vector<Part> parts_;
  std::optional<FactorSum> p_sum_;
  std::optional<FactorSum> q_sum_;
  bool p_is_summed_ = false;
};

using Powersgd = LowRankMethod<PowersgdExchange, 2>;

// Products: P; then Q; then the result and what it leaves in the residual.
planner::BucketCost powersgd_cost(const planner::BucketView& bucket) {
  const planner::LowRankSums sums = planner::low_rank_sums(bucket);
  planner::BucketCost cost = planner::two_rounds(
      {planner::Collective::all_reduce, sums.uncompressed_bytes + sums.p_bytes,
       bucket.encode(sums.product_operations)},
      {planner::Collective::all_reduce, sums.q_bytes,
       bucket.between(sums.product_operations + sums.orthonormalise_p_operations)},
      bucket.decode(2 * sums.product_operations));
  if (sums.q_bytes == 0) cost.round_count = 1;  // nothing is worth compressing
  return cost;
}

}  // namespace

MethodEntry powersgd_method() {
  return {
      .name = "powersgd",
      .summary = "Power-SGD: both low-rank factors in every step; two all-reduces",
      .options = low_rank_options(),
      .parameter_options = kLowRankParameterOptions,
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        return std::make_unique<Powersgd>(options);
      },
      .facts = low_rank_facts,
      .variants = low_rank_variants("powersgd"),
      .models = {{.name = "powersgd",
                  .colour = "#e69f00",
                  .loss = 2,
                  .options = planner::low_rank_options(),
                  .kernels = {.encode = 7.5, .between = 2.5, .decode = 3.2},
                  .tensor_operations = {.encode = 6, .between = 2, .decode = 5},
                  .cost = powersgd_cost}},
  };
}

}  // namespace gradwire
