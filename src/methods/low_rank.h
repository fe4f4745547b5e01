#pragma once

// What Power-SGD and ACP-SGD share: a gradient seen as a matrix, and the state of its factors.
//
// A parameter of shape (n, ...) is a matrix of n rows and m columns, approximated by P Qᵀ with P of
// n x r and Q of m x r, r = min(rank, n, m).

#include <ATen/ATen.h>

#include "methods/error_matrix.h"
#include "methods/method.h"

namespace gradwire {

std::vector<OptionSpec> low_rank_options();
inline const std::vector<std::string> kLowRankParameterOptions = {"rank", "min_ratio", "seed",
                                                                  "error_feedback"};

class LowRankState final : public ParameterState {
 public:
  LowRankState(int64_t rows, int64_t columns, int64_t rank, bool error_feedback, uint64_t seed,
               std::unique_ptr<ErrorMatrix> matrix, const at::TensorOptions& options);

  at::Tensor residual() const override;
  std::vector<StateTensor> tensors() override;

  // The slot's gradient as the matrix it stands for.
  at::Tensor as_matrix(const at::Tensor& tensor) const { return tensor.view({rows, columns}); }
  // Keeps what left · rightᵀ leaves unsent, or nothing without error feedback.
  void subtract(const at::Tensor& left, const at::Tensor& right);
  // As if the step with this gradient had not been.
  void cancel(const at::Tensor& gradient);

  int64_t rows;
  int64_t columns;
  int64_t rank;
  bool error_feedback;
  std::unique_ptr<ErrorMatrix> matrix;
  at::Tensor p;  // n x r
  at::Tensor q;  // m x r
};

// Null where compression would not pay: r (n + m) min_ratio > n m, or fewer than two dimensions.
std::unique_ptr<LowRankState> make_low_rank_state(const Parameter& parameter,
                                                  const OptionMap& options);

// A copy with orthonormal columns.
at::Tensor orthonormalised(const at::Tensor& factor);

bool all_finite(const at::Tensor& values);

}  // namespace gradwire
