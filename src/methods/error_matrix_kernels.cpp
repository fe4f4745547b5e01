// The same with the kernels: one pass over memory per encode. The product that subtract() takes
// away is kept pending and settled by the next encode, which reads the buffer anyway.

#include <ATen/Parallel.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <vector>

#include "kernels/low_rank.h"
#include "kernels/orthonormalise.h"
#include "methods/error_matrix.h"

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

class KernelErrorMatrix final : public ErrorMatrix {
 public:
  KernelErrorMatrix(int64_t rows, int64_t columns) : values_(at::zeros({rows, columns})) {}

  bool encode_left(const at::Tensor& gradient, const at::Tensor& right, at::Tensor& left) override {
    const low_rank::Shape shape = shape_of(left, right);
    const float* matrix = gradient.const_data_ptr<float>();
    return encode(
        values_.size(0), shape,
        [&](low_rank::Range rows, std::span<float> scratch) {
          return low_rank::encode_left(shape, matrix, data(), pending(),
                                       right.const_data_ptr<float>(), left.data_ptr<float>(), rows,
                                       scratch);
        },
        [&](low_rank::Range rows) { low_rank::roll_back(shape, matrix, data(), rows, {0, shape.columns}); });
  }

  bool encode_right(const at::Tensor& gradient, const at::Tensor& left,
                    at::Tensor& right) override {
    const low_rank::Shape shape = shape_of(left, right);
    const float* matrix = gradient.const_data_ptr<float>();
    return encode(
        values_.size(1), shape,
        [&](low_rank::Range columns, std::span<float> scratch) {
          return low_rank::encode_right(shape, matrix, data(), pending(),
                                        left.const_data_ptr<float>(), right.data_ptr<float>(),
                                        columns, scratch);
        },
        [&](low_rank::Range columns) {
          const auto begin = static_cast<int64_t>(columns.begin);
          const auto width = static_cast<int64_t>(columns.end - columns.begin);
          values_.narrow(1, begin, width).sub_(gradient.narrow(1, begin, width));
        });
  }

  void multiply_transposed(const at::Tensor& left, at::Tensor& right) override {
    const low_rank::Shape shape = shape_of(left, right);
    for_each_range(values_.size(1), shape, [&](low_rank::Range columns, std::span<float> scratch) {
      low_rank::multiply_transposed(shape, data(), left.const_data_ptr<float>(),
                                    right.data_ptr<float>(), columns, scratch);
    });
  }

  void subtract(const at::Tensor& left, const at::Tensor& right) override {
    pending_left_ = left;
    pending_right_ = right;
  }

  void cancel(const at::Tensor& gradient) override {
    forget_pending();
    values_.sub_(gradient);
  }

  at::Tensor& residual() override {
    if (pending_left_.defined()) {
      const low_rank::Shape shape = shape_of(pending_left_, pending_right_);
      for_each_range(values_.size(0), shape, [&](low_rank::Range rows, std::span<float> scratch) {
        low_rank::settle(shape, pending(), data(), rows, scratch);
      });
      forget_pending();
    }
    return values_;
  }

 private:
  float* data() { return values_.data_ptr<float>(); }

  low_rank::FactorPair pending() const {
    if (!pending_left_.defined()) return {};
    return {pending_left_.const_data_ptr<float>(), pending_right_.const_data_ptr<float>()};
  }

  void forget_pending() {
    pending_left_ = at::Tensor();
    pending_right_ = at::Tensor();
  }

  // Encodes all ranges. If one of them is not finite, the kernel has left E there, and the others
  // are taken back.
  template <typename Encode, typename Undo>
  bool encode(int64_t length, const low_rank::Shape& shape, const Encode& encode_range,
              const Undo& undo_range) {
    std::mutex mutex;
    std::vector<low_rank::Range> done;
    std::atomic<bool> finite = true;
    for_each_range(length, shape, [&](low_rank::Range range, std::span<float> scratch) {
      if (encode_range(range, scratch)) {
        const std::lock_guard lock(mutex);
        done.push_back(range);
      } else {
        finite = false;
      }
    });
    forget_pending();
    if (!finite) {
      for (const low_rank::Range range : done) undo_range(range);
    }
    return finite;
  }

  at::Tensor values_;  // A after an encode, E once the pending product is taken away
  at::Tensor pending_left_;
  at::Tensor pending_right_;
};

}  // namespace

std::unique_ptr<ErrorMatrix> make_kernel_error_matrix(int64_t rows, int64_t columns) {
  return std::make_unique<KernelErrorMatrix>(rows, columns);
}

void multiply_factors(const at::Tensor& left, const at::Tensor& right, double factor,
                      at::Tensor& result) {
  if (!result.is_cpu()) {
    at::mm_out(result, left, (right * factor).t());
    return;
  }
  const low_rank::Shape shape = shape_of(left, right);
  const low_rank::FactorPair factors = {left.const_data_ptr<float>(),
                                        right.const_data_ptr<float>()};
  for_each_range(left.size(0), shape, [&](low_rank::Range rows, std::span<float> scratch) {
    low_rank::decode(shape, factors, static_cast<float>(factor), result.data_ptr<float>(), rows,
                     scratch);
  });
}

void orthonormalise(at::Tensor& factor) {
  if (!factor.is_cpu()) {
    // Householder QR gives a full orthonormal basis whatever the rank of its input. Scaled to a
    // largest element of one, because the squares of tiny or huge factors would leave the range.
    const at::Tensor wide = factor.to(at::kDouble);
    const at::Tensor largest = wide.abs().amax().clamp_min(std::numeric_limits<double>::min());
    factor.copy_(std::get<0>(at::linalg_qr(wide / largest, "reduced")));
    return;
  }
  const auto rank = static_cast<size_t>(factor.size(1));
  std::vector<double> scratch(kernels::orthonormalise_scratch(rank));
  kernels::orthonormalise(factor.data_ptr<float>(), static_cast<size_t>(factor.size(0)), rank,
                          scratch);
}

}  // namespace gradwire
