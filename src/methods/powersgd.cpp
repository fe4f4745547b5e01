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
//
// Where factors are rounded, E = A − P Qᵀ uses the own Q as sent, and the worker that rounds a
// slice of the mean keeps N times what this rounding has lost. Over the workers that adds up to the
// same E. But with the averaged Q, what differs between the workers would stay in their residuals
// for good, and the rounding, which is relative to what a worker sends, would grow with it.

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
  PowersgdExchange(const std::vector<Slot>& slots, const Step& step, FactorType type,
                   BufferPool& buffers)
      : workers_(step.workers), type_(type) {
    std::vector<FactorShape> p_shapes;
    std::vector<FactorShape> q_shapes;
    int64_t numbers = 0;
    for (const Slot& slot : slots) {
      auto* state = static_cast<LowRankState*>(slot.state);
      const int64_t own = state == nullptr ? slot.memory.numel() : 1;
      parts_.push_back({slot, state, p_shapes.size(), numbers, own});
      numbers += own;
      if (state == nullptr) continue;
      p_shapes.push_back({state->rows, state->rank});
      q_shapes.push_back({state->columns, state->rank});
    }
    const at::TensorOptions options = slots.front().memory.options();
    p_sum_ = make_factor_sum(type, p_shapes, numbers, options, step, buffers);
    if (!q_shapes.empty()) q_sum_ = make_factor_sum(type, q_shapes, 0, options, step, buffers);
  }

  Round start() override {
    for (Part& part : parts_) {
      part.state == nullptr ? part.slot.write_share(numbers_of(part), workers_) : encode_p(part);
    }
    return p_sum_->start();
  }

  std::optional<Round> complete_round() override {
    if (p_is_summed_) return q_sum_->complete_round();
    if (auto round = p_sum_->complete_round()) return round;
    p_is_summed_ = true;
    if (q_sum_ == nullptr) return std::nullopt;
    for (Part& part : parts_) {
      if (part.state != nullptr) encode_q(part);
    }
    Round round = q_sum_->start();
    for (Part& part : parts_) {
      if (part.encoded && is_rounded()) part.own_q = q_sum_->sent(part.factor);
    }
    return round;
  }

  void finish() override {
    for (Part& part : parts_) {
      part.state == nullptr ? part.slot.read_mean(numbers_of(part)) : decode(part);
    }
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Part& part : parts_) {
      bytes.push_back(wire_bytes(numbers_of(part)));
      if (part.state == nullptr) continue;
      const LowRankState& state = *part.state;
      bytes.back() += factor_bytes(type_, state.rows, state.rank) +
                      factor_bytes(type_, state.columns, state.rank);
    }
    const int64_t q_padding = q_sum_ == nullptr ? 0 : q_sum_->padding_bytes();
    share_overhead(p_sum_->padding_bytes() + q_padding, bytes);
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    LowRankState* state;      // null: travels uncompressed
    size_t factor;            // of both sums, if compressed
    int64_t first_number;     // of the first sum
    int64_t numbers;          // the gradient; if compressed, the count of contributors
    bool encoded = false;     // the residual holds A
    bool finite = true;       // so far, on every worker
    double contributors = 0;  // workers that used the parameter
    at::Tensor p = {};        // the common one, orthonormal
    at::Tensor own_q = {};    // as it travels, if rounded
  };

  at::Tensor numbers_of(const Part& part) const {
    return p_sum_->numbers().narrow(0, part.first_number, part.numbers);
  }

  bool is_rounded() const { return type_ != FactorType::fp32; }

  void encode_p(Part& part) {
    LowRankState& state = *part.state;
    const at::Tensor gradient = state.as_matrix(part.slot.load());
    const at::Tensor p = at::zeros_like(state.p);
    numbers_of(part).zero_();
    if (!state.code.is_zero(gradient)) {
      part.encoded = state.encode(Side::left, gradient, state.q, p);
      // One NaN here is a NaN in everyone's sum: all see it in encode_q().
      numbers_of(part).fill_(part.encoded ? 1 : std::numeric_limits<float>::quiet_NaN());
      if (!part.encoded) p.zero_();
    }
    p_sum_->put(part.factor, p);
  }

  void encode_q(Part& part) {
    LowRankState& state = *part.state;
    const at::Tensor p = p_sum_->sum(part.factor);
    const at::Tensor q = at::zeros_like(state.q);
    part.contributors = numbers_of(part).item<double>();
    part.finite = std::isfinite(part.contributors) && state.code.all_finite(p);
    if (!part.finite) {
      roll_back(part);
    } else if (part.contributors > 0) {
      part.p = state.orthonormalised(p);
      if (part.encoded) state.multiply_transposed(part.p, q);
    }
    q_sum_->put(part.factor, q);
  }

  void decode(Part& part) {
    LowRankState& state = *part.state;
    const at::Tensor result = part.slot.result();
    if (part.finite && part.contributors > 0) {
      const at::Tensor q = q_sum_->sum(part.factor) / workers_;
      part.finite = state.code.all_finite(q);
      if (part.finite) {
        keep_back(part, q);
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

  void keep_back(const Part& part, const at::Tensor& mean_q) const {
    if (is_rounded()) {
      const at::Tensor arrived = q_sum_->arrived(part.factor, part.own_q);
      if (arrived.defined()) part.state->subtract({part.p, arrived});
    } else if (part.encoded) {
      part.state->subtract({part.p, mean_q * (workers_ / part.contributors)});
    }
  }

  // Some worker's gradient was not finite.
  static void roll_back(Part& part) {
    if (part.encoded) part.state->roll_back(part.slot);
    part.encoded = false;
  }

  int workers_;
  FactorType type_;
  std::vector<Part> parts_;
  std::unique_ptr<FactorSum> p_sum_;
  std::unique_ptr<FactorSum> q_sum_;  // null if nothing is compressed
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
      .summary = "Power-SGD: both low-rank factors in every step; two sums",
      .options = low_rank_options(32),
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
