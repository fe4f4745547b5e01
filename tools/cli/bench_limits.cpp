#include "cli/bench_limits.h"

#include <chrono>

#include "methods/device_code.h"

namespace gradwire::bench {
namespace {

// Large enough for MKL to reach its best rate.
constexpr int64_t kSquare = 1024;

// Its factor is the largest of BERT's, the word embedding's.
constexpr int64_t kVocabulary = 30522;

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Sample::quantile(double part) const {
  return at::tensor(values_).quantile(part).item<double>();
}

Limits::Limits(const std::vector<int64_t>& shape)
    : residual_(at::randn(shape)),
      gradient_(at::randn(shape)),
      square_(at::randn({kSquare, kSquare})) {}

void Limits::forget_machine() {
  stream_.clear();
  sgemm_.clear();
}

void Limits::measure_machine(int threads) {
  stream_[threads].add(seconds_of([&] { residual_.add_(gradient_); }));
  sgemm_[threads].add(seconds_of([&] { square_.mm(square_); }));
}

double Limits::sgemm_flops(int threads) const {
  // The best, not the median: it is to stand for what the machine can do.
  return 2.0 * kSquare * kSquare * kSquare / sgemm_.at(threads).quantile(0);
}

void Limits::measure_libraries() {
  const at::Tensor flat = gradient_.view(-1);
  const at::Tensor magnitudes = flat.abs();
  for (const auto& [name, density] :
       {std::pair("torch.topk 1 %", 0.01), {"torch.topk 0.1 %", 0.001}}) {
    const auto k = static_cast<int64_t>(density * static_cast<double>(flat.numel()));
    libraries_[name].add(seconds_of([&] { magnitudes.topk(k, -1, true, /*sorted=*/false); }));
  }
  for (const int64_t rank : {4, 32}) {
    const at::Tensor right = at::randn({gradient_.size(1), rank});
    const at::Tensor left = at::randn({gradient_.size(0), rank});
    const std::string of_rank = " rank " + std::to_string(rank);
    libraries_["MKL M Q" + of_rank].add(seconds_of([&] { gradient_.mm(right); }));
    libraries_["MKL Mt P" + of_rank].add(seconds_of([&] { gradient_.t().mm(left); }));
    libraries_["MKL P Qt" + of_rank].add(seconds_of([&] { left.mm(right.t()); }));
  }
  const at::Tensor factor = at::randn({kVocabulary, 32});
  libraries_["orthonormalise 30522 x 32 (ours)"].add(
      seconds_of([&] { kernel_code().low_rank.orthonormalise(factor); }));
}

}  // namespace gradwire::bench
