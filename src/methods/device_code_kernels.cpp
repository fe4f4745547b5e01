#include "kernels/add_scaled.h"
#include "kernels/half.h"
#include "kernels/roll_back.h"
#include "kernels/scan.h"
#include "methods/device_code.h"
#include "methods/pieces.h"

// (clang-tidy reads the code without it.)
#if !defined(INTRA_OP_PARALLEL) && !defined(__clang_analyzer__)
#error "at::parallel_for would run on one thread: compile with OpenMP"
#endif

namespace gradwire {

const QuantCode& quant_kernels();
const SignCode& sign_kernels();
const LowRankCode& low_rank_kernels();
const GatheredCode& gathered_kernels();

namespace {

std::span<uint16_t> words_of(const at::Tensor& halves) {
  return {static_cast<uint16_t*>(halves.data_ptr()), static_cast<size_t>(halves.numel())};
}

kernels::HalfFormat format_of(const at::Tensor& halves) {
  return halves.scalar_type() == at::kHalf ? kernels::HalfFormat::kFloat16
                                           : kernels::HalfFormat::kBfloat16;
}

class KernelCode final : public DeviceCode {
 public:
  KernelCode()
      : DeviceCode(true, quant_kernels(), sign_kernels(), low_rank_kernels(), gathered_kernels()) {}

  bool is_zero(const at::Tensor& gradient) const override {
    return kernels::all_zero(floats_of(gradient));
  }
  bool all_finite(const at::Tensor& values) const override {
    return kernels::all_finite(floats_of(values));
  }
  void roll_back(const at::Tensor& gradient, const at::Tensor& residual) const override {
    for_each_piece(gradient.numel(), [&](size_t first, size_t count) {
      kernels::roll_back(floats_of(gradient).subspan(first, count),
                         floats_of(residual).subspan(first, count));
    });
  }
  void add_scaled(const at::Tensor& a, float factor, const at::Tensor& b,
                  const at::Tensor& sum) const override {
    for_each_piece(sum.numel(), [&](size_t first, size_t count) {
      kernels::add_scaled(floats_of(a).subspan(first, count), factor,
                          floats_of(b).subspan(first, count), floats_of(sum).subspan(first, count));
    });
  }

  void narrow(const at::Tensor& gradient, const at::Tensor& halves) const override {
    for_each_piece(halves.numel(), [&](size_t first, size_t count) {
      kernels::narrow(format_of(halves), floats_of(gradient).subspan(first, count),
                      words_of(halves).subspan(first, count));
    });
  }

  void widen(const at::Tensor& halves, const at::Tensor& result) const override {
    for_each_piece(halves.numel(), [&](size_t first, size_t count) {
      kernels::widen(format_of(halves), words_of(halves).subspan(first, count),
                     floats_of(result).subspan(first, count));
    });
  }

  void average(const at::Tensor& slices, int64_t count) const override {
    const int64_t length = slices.numel() / count;
    uint16_t* const begin = words_of(slices).data();
    for_each_piece(length, [&](size_t first, size_t elements) {
      std::vector<const uint16_t*> parts(count);
      for (int64_t i = 0; i < count; ++i) parts[i] = begin + i * length + first;
      kernels::sum_halves(format_of(slices), parts, 1.0F / static_cast<float>(count),
                          {begin + first, elements});
    });
  }
};

}  // namespace

const DeviceCode& kernel_code() {
  static const KernelCode code;
  return code;
}

}  // namespace gradwire
