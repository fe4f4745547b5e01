// The mean of the gradients in 8, 4 or 2 bits per element, quantised in blocks (block_payload.h).
//
//   round 1, all-to-all:  each worker quantises G = g + E and sends every worker that one's slice
//                         of it;  E = G − what was sent
//   round 2, all-gather:  each worker decodes the N contributions to its slice, adds them up in
//                         fp32, in worker order, and quantises their mean in the same way;  to its
//                         own E of these elements it adds N times what this rounding has lost
//
// So neither rounding drops anything, and what a worker sends does not grow with N. Without error
// feedback there is no E, and what the roundings lose is lost.
//
// A slice is a whole number of blocks, and records of zeros fill up the last slice. If a gradient
// or a mean is not finite, the marks come back to everyone with the means, and every worker rolls
// back what it has done to E.

#include <ATen/ATen.h>

#include <algorithm>

#include "methods/block_payload.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

class QuantExchange final : public Exchange {
 public:
  QuantExchange(const std::vector<Slot>& slots, const Step& step, const QuantFormat& format,
                BufferPool& buffers)
      : payload_(slots, format, buffers), step_(step), format_(format) {
    slice_ = (payload_.blocks() + step.workers - 1) / step.workers;
  }

  Round start() override {
    sent_ = payload_.take(all_blocks());
    payload_.encode(sent_);
    payload_.records(sent_, payload_.blocks(), all_blocks() - payload_.blocks()).zero_();
    contributed_ = payload_.take(all_blocks());
    return {Collective::all_to_all, sent_, contributed_};
  }

  // What was sent and contributed is kept: a step that is not finite is rolled back with it.
  std::optional<Round> complete_round() override {
    if (gathered_.defined()) return std::nullopt;
    means_ = payload_.take(slice_).zero_();
    for_each_own([&](const BlockPart& part, const Owned& owned) {
      part.code().average(format_, owned.contributed, owned.elements, owned.error, owned.means);
    });
    gathered_ = payload_.take(all_blocks());
    return Round{Collective::all_gather, means_, gathered_};
  }

  void finish() override {
    for (BlockPart& part : payload_.parts()) {
      part.finite = part.code().all_finite(format_, payload_.records(gathered_, part));
    }
    roll_back();
    for (const BlockPart& part : payload_.parts()) {
      payload_.decode(part, {payload_.records(gathered_, part)}, 1);
    }
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes = payload_.bytes();
    share_overhead((all_blocks() - payload_.blocks()) * payload_.record_bytes(), bytes);
    return bytes;
  }

 private:
  // A part's blocks in this worker's slice.
  struct Owned {
    std::vector<at::Tensor> contributed;  // by every worker
    at::Tensor error;                     // of these elements
    at::Tensor means;
    int64_t elements;
  };

  int64_t all_blocks() const { return slice_ * step_.workers; }

  template <typename Function>
  void for_each_own(const Function& function) const {
    const int64_t slice_begin = step_.worker * slice_;
    for (const BlockPart& part : payload_.parts()) {
      const int64_t begin = std::max(part.first_block, slice_begin);
      const int64_t end = std::min(part.first_block + part.blocks, slice_begin + slice_);
      if (begin >= end) continue;
      const auto block = static_cast<int64_t>(format_.block);
      const int64_t first = (begin - part.first_block) * block;
      const int64_t elements = std::min((end - begin) * block, part.elements() - first);
      Owned owned{.contributed = {},
                  .error = part.state->error_at(first, elements),
                  .means = payload_.records(means_, begin - slice_begin, end - begin),
                  .elements = elements};
      for (int worker = 0; worker < step_.workers; ++worker) {
        owned.contributed.push_back(
            payload_.records(contributed_, worker * slice_ + begin - slice_begin, end - begin));
      }
      function(part, owned);
    }
  }

  // As if the step had not been, for all parameters that are not finite. The slots still hold this
  // worker's gradients.
  void roll_back() const {
    for_each_own([&](const BlockPart& part, const Owned& owned) {
      if (part.finite || !owned.error.defined()) return;
      part.code().roll_back_average(format_, owned.contributed, owned.means, owned.error);
    });
    for (const BlockPart& part : payload_.parts()) {
      if (!part.finite) payload_.roll_back(part, sent_);
    }
  }

  BlockPayload payload_;
  Step step_;
  QuantFormat format_;
  int64_t slice_;           // blocks that each worker averages
  at::Tensor sent_;         // the records of this worker's gradients
  at::Tensor contributed_;  // every worker's records of this one's slice
  at::Tensor means_;        // the records of this slice's means
  at::Tensor gathered_;     // those of all slices
};

class Quant final : public Method {
 public:
  explicit Quant(const QuantFormat& format) : format_(format) {}

  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override {
    return std::make_unique<BlockState>(parameter.tensor,
                                        std::get<bool>(options.at("error_feedback")));
  }
  int rounds() const override { return 2; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<QuantExchange>(slots, step, format_, buffers_);
  }

 private:
  QuantFormat format_;
};

int bits_of(const OptionMap& options) {
  return static_cast<int>(std::get<int64_t>(options.at("bits")));
}

constexpr size_t default_block(int bits) { return bits == 8 ? 256 : 64; }

QuantFormat format_of(const OptionMap& options) {
  const auto block = static_cast<size_t>(std::get<int64_t>(options.at("block")));
  return {bits_of(options), block == 0 ? default_block(bits_of(options)) : block};
}

OptionSpec bits_option() {
  return {"bits", int64_t{8}, "8, 4 or 2", [](const OptionValue& value) {
            const auto* bits = std::get_if<int64_t>(&value);
            return bits != nullptr && (*bits == 8 || *bits == 4 || *bits == 2);
          }};
}

template <int kBits>
planner::BucketCost cost_with_bits(const planner::BucketView& bucket) {
  constexpr QuantFormat kFormat{kBits, default_block(kBits)};
  return planner::by_slices(
      bucket, planner::bytes_in_blocks(bucket, kFormat.block, kFormat.record_bytes()));
}

// Of both roundings together, relative to the largest element of a block: half a level each, and a
// scale is up to 1 % larger than needed.
double largest_rounding(int bits) { return bits == 2 ? 3 : 1.01 / ((1 << (bits - 1)) - 1); }

constexpr planner::Traffic kQuantTensorOperations = {.encode = 30, .between = 24, .decode = 10};

}  // namespace

MethodEntry quant_method() {
  return {
      .name = "quant",
      .summary = "the mean of the gradients in 8, 4 or 2 bits per element, quantised in blocks",
      .options = {bits_option(),
                  block_option(0, "256 at 8 bits, else 64"),
                  {"error_feedback", false, "True or False; by default True below 8 bits",
                   [](const OptionValue& value) { return std::holds_alternative<bool>(value); }}},
      .parameter_options = {"error_feedback"},
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        return std::make_unique<Quant>(format_of(options));
      },
      .complete =
          [](const OptionMap& given, OptionMap& options) {
            if (!given.contains("error_feedback")) options["error_feedback"] = bits_of(options) < 8;
          },
      .facts =
          [](const OptionMap& options) {
            const bool feedback = std::get<bool>(options.at("error_feedback"));
            return Facts{
                .loss_class = bits_of(options) == 2 ? LossClass::delayed : LossClass::rounded,
                .keeps_residual = feedback,
                .rounding = feedback ? 0 : largest_rounding(bits_of(options)),
                .model = bits_of(options) == 8   ? 0U
                         : bits_of(options) == 4 ? 1U
                                                 : 2U};
          },
      .variants = {{"quant-4", {{"bits", int64_t{4}}}}, {"quant-2", {{"bits", int64_t{2}}}}},
      .models = {{.name = "quant",
                  .colour = "#332288",
                  .loss = 1.2,
                  .kernels = {.encode = 2.3, .between = 1, .decode = 2.2},
                  .tensor_operations = kQuantTensorOperations,
                  .cost = cost_with_bits<8>},
                 {.name = "quant-4",
                  .colour = "#6655bb",
                  .loss = 1.4,
                  .kernels = {.encode = 3.6, .between = 1.6, .decode = 2.3},
                  .tensor_operations = kQuantTensorOperations,
                  .cost = cost_with_bits<4>},
                 {.name = "quant-2",
                  .colour = "#9988dd",
                  .loss = 2.5,
                  .kernels = {.encode = 3.8, .between = 1.6, .decode = 2.3},
                  .tensor_operations = kQuantTensorOperations,
                  .cost = cost_with_bits<2>}},
  };
}

}  // namespace gradwire
