// The mean of the gradients, in 16 bits per element.
//
//   round 1, all-to-all:  each worker rounds its gradients to bf16 or fp16 and sends every worker
//                         that one's slice of them
//   round 2, all-gather:  each worker adds up the N contributions to its slice in fp32, in worker
//                         order, takes the mean, rounds it once and sends it to all
//
// This moves what a ring all-reduce of halves would move, but an element is rounded twice whatever
// the number of workers, where a ring rounds at every hop. Each round's buffer holds 2 bytes per
// element of the part (round 2 sends one N-th of that), padded to whole slices.
//
// There is no residual. An inf or NaN in any contribution is one in the sum, hence on all workers.
// So is a finite gradient beyond the range of the type, which for fp16 ends at 65504: with fp16, a
// loss scale must keep gradients below that, as it must for fp16 gradients themselves.

#include <ATen/ATen.h>

#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

// A slice is a multiple of this many elements.
constexpr int64_t kSliceUnit = 8;

class HalfExchange final : public Exchange {
 public:
  HalfExchange(std::vector<Slot> slots, const Step& step, at::ScalarType type, BufferPool& buffers)
      : slots_(std::move(slots)),
        workers_(step.workers),
        buffers_(buffers),
        type_(type),
        code_(slots_.front().state->code) {
    for (const Slot& slot : slots_) elements_ += slot.memory.numel();
    const int64_t unit = kSliceUnit * workers_;
    slice_ = (elements_ + unit - 1) / unit * kSliceUnit;
  }

  Round start() override {
    const at::TensorOptions options = slots_.front().memory.options().dtype(type_);
    whole_ = buffers_.take(slice_ * workers_, options);
    slices_ = buffers_.take(slice_ * workers_, options);
    for_each_part(slots_, whole_, [this](const Slot& slot, const at::Tensor& part) {
      code_.narrow(slot.load(), part);
    });
    whole_.narrow(0, elements_, whole_.numel() - elements_).zero_();
    return {Collective::all_to_all, whole_.view(at::kByte), slices_.view(at::kByte)};
  }

  // The mean takes the place of the first contribution, and all means that of the gradients sent:
  // no further memory.
  std::optional<Round> complete_round() override {
    if (mean_.defined()) return std::nullopt;
    mean_ = slices_.narrow(0, 0, slice_);
    code_.average(slices_, workers_);
    return Round{Collective::all_gather, mean_.view(at::kByte), whole_.view(at::kByte)};
  }

  void finish() override {
    for_each_part(slots_, whole_, [this](const Slot& slot, const at::Tensor& part) {
      const at::Tensor result = slot.result();
      code_.widen(part, result);
      slot.store(result);
    });
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Slot& slot : slots_) bytes.push_back(2 * slot.memory.numel());
    share_overhead(2 * (slice_ * workers_ - elements_), bytes);
    return bytes;
  }

 private:
  std::vector<Slot> slots_;
  int workers_;
  BufferPool& buffers_;
  at::ScalarType type_;
  const DeviceCode& code_;
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
    return std::make_unique<ParameterState>(parameter.tensor.device());
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
      .options = {choice_option("dtype", {"bf16", "fp16"}, "bf16")},
      .parameter_options = {},
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        const bool fp16 = std::get<std::string>(options.at("dtype")) == "fp16";
        return std::make_unique<Half>(fp16 ? at::kHalf : at::kBFloat16);
      },
      .facts =
          [](const OptionMap& options) {
            const bool fp16 = std::get<std::string>(options.at("dtype")) == "fp16";
            return Facts{.loss_class = LossClass::rounded, .rounding = fp16 ? 0x1p-11 : 0x1p-8};
          },
      .variants = {{"half-fp16", {{"dtype", std::string("fp16")}}}},
      .models = {{.name = "half",
                  .colour = "#0072b2",
                  .loss = 1,
                  .kernels = {.encode = 2.8, .between = 1.2, .decode = 2.1},
                  .tensor_operations = {.encode = 1.5, .between = 1.5, .decode = 1.5},
                  .cost =
                      [](const planner::BucketView& bucket) {
                        return planner::by_slices(bucket, bucket.bytes() / 2);
                      }}},
  };
}

}  // namespace gradwire
