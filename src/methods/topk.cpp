// Top-k SGD: of every parameter the k largest elements by magnitude, exactly.
//
//   G = g + E ;  send the k largest |G|, of equal ones those with the lower index
//   result = Σ over workers, in their order, of value · (1/N)
//   E = G, and at what was sent whatever the rounding of the values left over (0 for fp32)
//
// k = max(1, floor(density · n + 0.5)), per parameter. Without error feedback E is not kept: G is
// the gradient itself. One or two all-gathers; see gathered.h.

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "methods/gathered.h"
#include "methods/momentum.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

wire::ValueType value_type(const OptionMap& options) {
  const auto& name = std::get<std::string>(options.at("dtype"));
  if (name == "fp32") return wire::ValueType::fp32;
  return name == "bf16" ? wire::ValueType::bf16 : wire::ValueType::fp16;
}

class TopkState final : public GatheredState {
 public:
  TopkState(const Parameter& parameter, size_t k, wire::ValueType type, bool error_feedback)
      : GatheredState(parameter, {.elements = static_cast<uint64_t>(parameter.tensor.numel())},
                      error_feedback),
        k_(k),
        type_(type) {
    expected_bytes = first_guess();
  }

  size_t bound() const override { return wire::topk_bound(shape_, k_, type_); }

  void encode(const at::Tensor& gradient, wire::PayloadWriter& writer) override {
    code.gathered.encode_largest(gradient, error_, shape_, k_, type_, writer);
  }

  wire::SparseRecord read(wire::PayloadReader& reader) const override {
    return reader.topk(shape_);
  }

 private:
  // As if the positions were independent of each other: log2(n / k) + 1.5 bits each, rounded up.
  size_t first_guess() const {
    constexpr size_t chunk_header = 7;
    const size_t bits = static_cast<size_t>(std::bit_width(shape_.elements / k_)) + 2;
    const size_t positions = k_ * bits / 8 + 1 + chunk_header * shape_.chunks();
    return std::min(1 + positions + k_ * wire::value_bytes(type_), bound());
  }

  size_t k_;
  wire::ValueType type_;
};

std::unique_ptr<GatheredState> make_topk_state(const Parameter& parameter,
                                               const OptionMap& options) {
  const double density = std::get<double>(options.at("density"));
  const double wanted = std::floor(density * static_cast<double>(parameter.tensor.numel()) + 0.5);
  return std::make_unique<TopkState>(parameter, std::max<size_t>(1, static_cast<size_t>(wanted)),
                                     value_type(options),
                                     std::get<bool>(options.at("error_feedback")));
}

// Payloads travel with a part of this more, because their size is agreed one step ahead.
constexpr size_t kTopkRoom = 64;
// Of a position's code over the entropy, as docs/wire_format.md measures it.
constexpr double kPositionOverhead = 1.02;

planner::BucketCost topk_cost(const planner::BucketView& bucket) {
  const double density = bucket.option("density");
  const double entropy = -(density * std::log2(density) + (1 - density) * std::log2(1 - density));
  const double bits = 32 + (density < 1 ? kPositionOverhead * entropy / density : 0);
  double payload = 0;
  for (const planner::ParameterShape& parameter : bucket.parameters()) {
    const auto elements = static_cast<double>(parameter.elements());
    payload +=
        planner::kRecordBytes + std::max(1.0, std::floor(density * elements + 0.5)) * bits / 8;
  }
  return planner::gathered(bucket, (1 + 1.0 / kTopkRoom) * payload);
}

}  // namespace

MethodEntry topk_method() {
  return {
      .name = "topk",
      .summary =
          "Top-k SGD: the largest elements of every parameter, exactly, with their positions",
      .options = {number_option("density", 0.01, 0, 1, /*open_below=*/true),
                  choice_option("dtype", {"fp32", "bf16", "fp16"}, "fp32"),
                  boolean_option("error_feedback", true), momentum_option()},
      .parameter_options = {"density", "error_feedback", "momentum"},
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        // k is fixed; only the coding of the positions varies from step to step, and little.
        const GatheredFormat format{wire::Method::topk, value_type(options), kTopkRoom};
        return std::make_unique<GatheredMethod>(format, make_topk_state);
      },
      .facts = delayed_facts,
      .variants = {{"topk-bf16", {{"dtype", std::string("bf16")}}},
                   {"topk-0.001", {{"density", 0.001}}},
                   {"topk-momentum", {{"momentum", 0.9}}}},
      .models = {{.name = "topk",
                  .colour = "#009e73",
                  .loss = 4,
                  .options = {{"density", 0.01, 1e-6, 1, "between 1e-6 and 1",
                               "part of the elements that travel"}},
                  .kernels = {.encode = 5.4, .decode = 3.1, .decode_payload = 18},
                  .tensor_operations = {.encode = 24, .decode = 2, .decode_payload = 40},
                  .cost = topk_cost}},
  };
}

}  // namespace gradwire
