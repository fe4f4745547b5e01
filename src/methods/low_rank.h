#pragma once

// What Power-SGD and ACP-SGD share: a gradient seen as a matrix, and the state of its factors.
//
// A parameter of shape (n, ...) is a matrix of n rows and m columns, approximated by P Qᵀ with P of
// n x r and Q of m x r, r = min(rank, n, m).

#include <ATen/ATen.h>

#include "methods/factor_sum.h"
#include "methods/registry.h"

namespace gradwire {

std::vector<OptionSpec> low_rank_options(int64_t default_rank);
inline const std::vector<std::string> kLowRankParameterOptions = {"rank", "min_ratio", "seed",
                                                                  "error_feedback"};

Facts low_rank_facts(const OptionMap& options);
std::vector<Variant> low_rank_variants(const std::string& method);

// The factors and the residual E. A step encodes A = M + E, the gradient plus what earlier steps
// left unsent, and approximates it by left · rightᵀ: encode(), perhaps multiply_transposed(), then
// subtract(). Where it turns out that some worker's gradient was not finite, roll_back() makes E
// what it was. Without error feedback E is zero, and no memory is kept for it.
class LowRankState final : public ParameterState {
 public:
  LowRankState(int64_t rows, int64_t columns, int64_t rank, bool error_feedback, uint64_t seed,
               const at::TensorOptions& options);

  at::Tensor residual() const override;
  std::vector<StateTensor> tensors() override;

  // The slot's gradient as the matrix it stands for.
  at::Tensor as_matrix(const at::Tensor& tensor) const { return tensor.view({rows, columns}); }
  // A copy with orthonormal columns.
  at::Tensor orthonormalised(const at::Tensor& factor) const;

  // product = A · basis (left) or Aᵀ · basis (right). False, with E as before (up to rounding), if
  // A or the product is not finite.
  bool encode(Side side, const at::Tensor& gradient, const at::Tensor& basis,
              const at::Tensor& product);
  // right = Aᵀ · left with the A of the last encode.
  void multiply_transposed(const at::Tensor& left, const at::Tensor& right) const;
  // E −= the product, where E is A after an encode. The factors may be read until the next
  // encode: they must not be changed any more.
  void subtract(const FactorPair& product);
  // E = A − M: as if the last encode, and a subtract() after it, had not been. The slot still holds
  // the gradient.
  void roll_back(const Slot& slot);

  int64_t rows;
  int64_t columns;
  int64_t rank;
  at::Tensor p;  // n x r
  at::Tensor q;  // m x r

 private:
  at::Tensor residual_;  // A after an encode, E without what is pending; undefined if E is zero
  FactorPair pending_;
  at::Tensor gradient_;  // of the step under way, where it is A
};

// Null where compression would not pay: the factors take up more than one part in min_ratio of the
// gradient's bytes, or it has fewer than two dimensions.
std::unique_ptr<LowRankState> make_low_rank_state(const Parameter& parameter,
                                                  const OptionMap& options);

// A method whose exchanges make so many sums of factors.
template <class FactorExchange, int sums>
class LowRankMethod final : public Method {
 public:
  explicit LowRankMethod(const OptionMap& options) : type_(factor_type(options)) {}

  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override {
    return make_low_rank_state(parameter, options);
  }
  int rounds() const override { return sums * FactorSum::rounds(type_); }
  bool carries_uncompressed() const override { return type_ == FactorType::fp32; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<FactorExchange>(slots, step, type_, buffers_);
  }

 private:
  FactorType type_;
};

}  // namespace gradwire
