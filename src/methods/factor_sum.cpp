#include "methods/factor_sum.h"

namespace gradwire {
namespace {

// Backends know bytes for certain, bf16 perhaps.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view(at::kByte); }

}  // namespace

FactorSum::FactorSum(int64_t length, const at::TensorOptions& options, const Step& step, bool bf16,
                     BufferPool& buffers)
    : values_(buffers.take(length, options.dtype(at::kFloat))),
      workers_(step.workers),
      bf16_(bf16),
      buffers_(buffers) {}

Round FactorSum::start() {
  if (!bf16_) return {Collective::all_reduce_sum, values_, values_};
  const int64_t padded = workers_ * slice_length();
  const auto options = values_.options().dtype(at::kBFloat16);
  const at::Tensor rounded = buffers_.take(padded, options);
  rounded.narrow(0, 0, values_.numel()).copy_(values_);
  rounded.narrow(0, values_.numel(), rounded.numel() - values_.numel()).zero_();
  slices_ = buffers_.take(padded, options);
  return {Collective::all_to_all, as_bytes(rounded), as_bytes(slices_)};
}

std::optional<Round> FactorSum::complete_round() {
  ++completed_;
  if (!bf16_ || completed_ > 2) return std::nullopt;
  if (completed_ == 1) {
    const at::Tensor sum =
        slices_.view({workers_, -1}).to(at::kFloat).sum(0).to(at::kBFloat16).contiguous();
    gathered_ = buffers_.take(slices_.numel(), slices_.options());
    return Round{Collective::all_gather, as_bytes(sum), as_bytes(gathered_)};
  }
  values_.copy_(gathered_.narrow(0, 0, values_.numel()));
  return std::nullopt;
}

}  // namespace gradwire
