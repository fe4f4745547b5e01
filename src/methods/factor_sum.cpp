#include "methods/factor_sum.h"

namespace gradwire {
namespace {

// Backends know bytes for certain, bf16 perhaps.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view(at::kByte); }

}  // namespace

FactorSum::FactorSum(int64_t length, const at::TensorOptions& options, const Step& step, bool bf16)
    : values_(at::empty({length}, options.dtype(at::kFloat))),
      workers_(step.workers),
      bf16_(bf16) {}

Round FactorSum::start() {
  if (!bf16_) return {Collective::all_reduce_sum, values_, values_};
  const int64_t slice = (values_.numel() + workers_ - 1) / workers_;
  at::Tensor rounded = at::zeros({workers_ * slice}, values_.options().dtype(at::kBFloat16));
  rounded.narrow(0, 0, values_.numel()).copy_(values_);
  slices_ = at::empty_like(rounded);
  return {Collective::all_to_all, as_bytes(rounded), as_bytes(slices_)};
}

std::optional<Round> FactorSum::next() {
  ++completed_;
  if (!bf16_ || completed_ > 2) return std::nullopt;
  if (completed_ == 1) {
    const at::Tensor sum =
        slices_.view({workers_, -1}).to(at::kFloat).sum(0).to(at::kBFloat16).contiguous();
    gathered_ = at::empty_like(slices_);
    return Round{Collective::all_gather, as_bytes(sum), as_bytes(gathered_)};
  }
  values_.copy_(gathered_.narrow(0, 0, values_.numel()));
  return std::nullopt;
}

}  // namespace gradwire
