// The mean of the gradients, in 16 bits per element.
//
//   round 1, all-to-all:  each worker rounds its gradients to bf16 or fp16 and sends every worker
//                         that one's slice of them
//   round 2, all-gather:  each worker adds up the N contributions to its slice in fp32, in worker
//                         order, takes the mean, rounds it once and sends it to all
//
// This moves what a ring all-reduce of halves would move, but an element is rounded twice whatever
// the number of workers, where a ring rounds at every hop. Each round's buffer holds 2 bytes per
// element of the bucket (round 2 sends one N-th of that), padded to whole slices.
//
// There is no residual. An inf or NaN in any contribution is one in the sum, hence on all workers.
// So is a finite gradient beyond the range of the type, which for fp16 ends at 65504: with fp16, a
// loss scale must keep gradients below that, as it must for fp16 gradients themselves.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/half.h"
#include "methods/overhead.h"
#include "methods/registry.h"
#include "methods/stateless.h"

namespace gradwire {
namespace {

// Fewer elements than this are not worth another thread.
constexpr int64_t kElementsPerThread = 65536;
// A slice is a multiple of this many elements.
constexpr int64_t kSliceUnit = 8;

uint16_t* words(const at::Tensor& halves) { return static_cast<uint16_t*>(halves.data_ptr()); }

class HalfExchange final : public Exchange {
 public:
  HalfExchange(std::vector<Slot> slots, const Step& step, at::ScalarType type, BufferPool& buffers)
      : slots_(std::move(slots)),
        workers_(step.workers),
        buffers_(buffers),
        type_(type),
        format_(type == at::kHalf ? kernels::HalfFormat::kFloat16 : kernels::HalfFormat::kBfloat16),
        kernels_(static_cast<StatelessParameter*>(slots_.front().state)->kernels) {
    for (const Slot& slot : slots_) elements_ += slot.memory.numel();
    const int64_t unit = kSliceUnit * workers_;
    slice_ = (elements_ + unit - 1) / unit * kSliceUnit;
  }

  Round start() override {
    const at::TensorOptions options = slots_.front().memory.options().dtype(type_);
    whole_ = buffers_.take(slice_ * workers_, options);
    slices_ = buffers_.take(slice_ * workers_, options);
    for_each_part(slots_, whole_,
                  [this](const Slot& slot, const at::Tensor& part) { narrow(slot, part); });
    whole_.narrow(0, elements_, whole_.numel() - elements_).zero_();
    return {Collective::all_to_all, whole_.view(at::kByte), slices_.view(at::kByte)};
  }

  // The mean takes the place of the first contribution, and all means that of the gradients sent:
  // no further memory.
  std::optional<Round> complete_round() override {
    if (mean_.defined()) return std::nullopt;
    mean_ = slices_.narrow(0, 0, slice_);
    kernels_ ? average_by_kernel() : average_by_aten();
    return Round{Collective::all_gather, mean_.view(at::kByte), whole_.view(at::kByte)};
  }

  void finish() override {
    for_each_part(slots_, whole_,
                  [this](const Slot& slot, const at::Tensor& part) { widen(slot, part); });
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Slot& slot : slots_) bytes.push_back(2 * slot.memory.numel());
    share_overhead(2 * (slice_ * workers_ - elements_), bytes);
    return bytes;
  }

 private:
  void narrow(const Slot& slot, const at::Tensor& part) const {
    if (!kernels_) {
      part.view(slot.memory.sizes()).copy_(slot.memory);
      return;
    }
    const at::Tensor gradient = slot.load();
    const auto* from = gradient.const_data_ptr<float>();
    uint16_t* to = words(part);
    at::parallel_for(0, part.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
      const auto count = static_cast<size_t>(end - begin);
      kernels::narrow(format_, {from + begin, count}, {to + begin, count});
    });
  }

  void widen(const Slot& slot, const at::Tensor& part) const {
    if (!kernels_) {
      slot.memory.copy_(part.view(slot.memory.sizes()));
      return;
    }
    const at::Tensor result = slot.result();
    const uint16_t* from = words(part);
    auto* to = result.mutable_data_ptr<float>();
    at::parallel_for(0, part.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
      const auto count = static_cast<size_t>(end - begin);
      kernels::widen(format_, {from + begin, count}, {to + begin, count});
    });
    slot.store(result);
  }

  void average_by_kernel() const {
    const float factor = 1.0F / static_cast<float>(workers_);
    uint16_t* contributions = words(slices_);
    at::parallel_for(0, slice_, kElementsPerThread, [&](int64_t begin, int64_t end) {
      std::vector<const uint16_t*> parts(workers_);
      for (int worker = 0; worker < workers_; ++worker) {
        parts[worker] = contributions + worker * slice_ + begin;
      }
      kernels::sum_halves(format_, parts, factor,
                          {contributions + begin, static_cast<size_t>(end - begin)});
    });
  }

  void average_by_aten() const {
    at::Tensor sum = at::zeros({slice_}, slices_.options().dtype(at::kFloat));
    for (int worker = 0; worker < workers_; ++worker) {
      sum += slices_.narrow(0, worker * slice_, slice_);
    }
    mean_.copy_(sum.mul_(1.0F / static_cast<float>(workers_)));
  }

  std::vector<Slot> slots_;
  int workers_;
  BufferPool& buffers_;
  at::ScalarType type_;
  kernels::HalfFormat format_;
  bool kernels_;
  int64_t elements_ = 0;
  int64_t slice_ = 0;  // elements that each worker adds up
  at::Tensor whole_;   // this worker's gradients, then the means of all
  at::Tensor slices_;  // every worker's contribution to this one's slice
  at::Tensor mean_;
};

class Half final : public Method {
 public:
  explicit Half(at::ScalarType type) : type_(type) {}

  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& /*options*/) const override {
    return std::make_unique<StatelessParameter>(parameter.tensor);
  }
  int rounds() const override { return 2; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<HalfExchange>(std::move(slots), step, type_, buffers_);
  }

 private:
  at::ScalarType type_;
};

}  // namespace

MethodEntry half_method() {
  return {
      .name = "half",
      .summary = "the mean of the gradients in 16 bits per element, summed in fp32",
      .options = {choice_option("dtype", {"bf16", "fp16"})},
      .parameter_options = {},
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        const bool fp16 = std::get<std::string>(options.at("dtype")) == "fp16";
        return std::make_unique<Half>(fp16 ? at::kHalf : at::kBFloat16);
      },
  };
}

}  // namespace gradwire
