#pragma once

// What Power-SGD and ACP-SGD share: a gradient seen as a matrix, and the state of its factors.
//
// A parameter of shape (n, ...) is a matrix of n rows and m columns, approximated by P Qᵀ with P of
// n x r and Q of m x r, r = min(rank, n, m).

#include <ATen/ATen.h>

#include "methods/method.h"

namespace gradwire {

std::vector<OptionSpec> low_rank_options();

class LowRankState final : public ParameterState {
 public:
  LowRankState(int64_t rows, int64_t columns, int64_t rank, bool error_feedback,
               const at::TensorOptions& options);

  at::Tensor residual() const override { return error; }
  std::map<std::string, at::Tensor> tensors() const override;

  int64_t rows;
  int64_t columns;
  int64_t rank;
  at::Tensor error;  // E, n x m; undefined without error feedback
  at::Tensor p;      // n x r
  at::Tensor q;      // m x r
};

// Null where compression would not pay: r (n + m) min_ratio > n m, fewer than two dimensions,
// nothing in it, or a type other than fp32, bf16 and fp16.
std::unique_ptr<LowRankState> make_low_rank_state(const Parameter& parameter,
                                                  const OptionMap& options);

// Replaces the columns by an orthonormal basis of the space they span, completed where they are
// linearly dependent. Depends on nothing but its input, so that every worker gets the same.
void orthonormalise(at::Tensor& factor);

}  // namespace gradwire
