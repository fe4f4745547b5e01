// One pass over memory per encode.

#include "kernels/low_rank.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "kernels/orthonormalise.h"
#include "methods/device_code.h"

namespace gradwire {
namespace {

namespace low_rank = kernels::low_rank;

// Rows, or columns, that one task takes at least: below, packing the factors costs too much.
constexpr int64_t kRowsPerThread = 256;

std::span<float> scratch_for(const low_rank::Shape& shape) {
  thread_local std::vector<float> scratch;
  const size_t needed = low_rank::scratch_floats(shape);
  if (scratch.size() < needed) scratch.resize(needed);
  return scratch;
}

// Calls function(range, scratch) on ranges that together make up [0, length).
template <typename Function>
void for_each_range(int64_t length, const low_rank::Shape& shape, const Function& function) {
  at::parallel_for(0, length, kRowsPerThread, [&](int64_t begin, int64_t end) {
    function(low_rank::Range{static_cast<size_t>(begin), static_cast<size_t>(end)},
             scratch_for(shape));
  });
}

low_rank::Shape shape_of(const at::Tensor& left, const at::Tensor& right) {
  return {static_cast<size_t>(left.size(0)), static_cast<size_t>(right.size(0)),
          static_cast<size_t>(right.size(1))};
}

low_rank::Shape shape_of(Side side, const at::Tensor& basis, const at::Tensor& product) {
  return side == Side::left ? shape_of(product, basis) : shape_of(basis, product);
}

const float* input(const at::Tensor& tensor) { return tensor.const_data_ptr<float>(); }
float* output(const at::Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

low_rank::FactorPair pointers_of(const FactorPair& factors) {
  if (!factors.left.defined()) return {};
  return {input(factors.left), input(factors.right)};
}

class LowRankKernels final : public LowRankCode {
 public:
  // Where a range is not finite, the kernel leaves E there, and the others are rolled back.
  bool encode(Side side, const at::Tensor& gradient, const at::Tensor& residual,
              const FactorPair& pending, const at::Tensor& basis,
              const at::Tensor& product) const override {
    const low_rank::Shape shape = shape_of(side, basis, product);
    const auto encode_range = side == Side::left ? low_rank::encode_left : low_rank::encode_right;
    std::mutex mutex;
    std::vector<low_rank::Range> done;
    std::atomic<bool> finite = true;
    for_each_range(product.size(0), shape, [&](low_rank::Range range, std::span<float> scratch) {
      if (encode_range(shape, input(gradient), output(residual), pointers_of(pending), input(basis),
                       output(product), range, scratch)) {
        const std::lock_guard lock(mutex);
        done.push_back(range);
      } else {
        finite = false;
      }
    });
    if (finite) return true;
    for (const low_rank::Range range : done) {
      const low_rank::Range rows = side == Side::left ? range : low_rank::Range{0, shape.rows};
      const low_rank::Range columns =
          side == Side::left ? low_rank::Range{0, shape.columns} : range;
      low_rank::roll_back(shape, input(gradient), output(residual), rows, columns);
    }
    return false;
  }

  void multiply(Side side, const at::Tensor& matrix, const at::Tensor& basis,
                const at::Tensor& product) const override {
    const low_rank::Shape shape = shape_of(side, basis, product);
    const auto multiply_range =
        side == Side::left ? low_rank::multiply : low_rank::multiply_transposed;
    for_each_range(product.size(0), shape, [&](low_rank::Range range, std::span<float> scratch) {
      multiply_range(shape, input(matrix), input(basis), output(product), range, scratch);
    });
  }

  void settle(const at::Tensor& residual, const FactorPair& pending) const override {
    if (!pending.left.defined()) return;
    const low_rank::Shape shape = shape_of(pending.left, pending.right);
    for_each_range(residual.size(0), shape, [&](low_rank::Range rows, std::span<float> scratch) {
      low_rank::settle(shape, pointers_of(pending), output(residual), rows, scratch);
    });
  }

  void multiply_factors(const FactorPair& factors, double factor,
                        const at::Tensor& result) const override {
    const low_rank::Shape shape = shape_of(factors.left, factors.right);
    for_each_range(result.size(0), shape, [&](low_rank::Range rows, std::span<float> scratch) {
      low_rank::decode(shape, pointers_of(factors), static_cast<float>(factor), output(result),
                       rows, scratch);
    });
  }

  void orthonormalise(const at::Tensor& factor) const override {
    const auto rank = static_cast<size_t>(factor.size(1));
    std::vector<double> scratch(kernels::orthonormalise_scratch(rank));
    kernels::orthonormalise(output(factor), static_cast<size_t>(factor.size(0)), rank, scratch);
  }
};

const LowRankKernels kLowRankKernels;

}  // namespace

const LowRankCode& low_rank_kernels() { return kLowRankKernels; }

}  // namespace gradwire
