// AdaComp: in every bin of consecutive elements, those that would lead the bin if the step were
// taken again, all sent as one magnitude with their signs.
//
//   G = E + g ;  H = G + g ;  gmax(bin) = max |G| in the bin ;  scale = mean of gmax over all bins
//   send element i where |H_i| >= gmax(its bin) > 0, as sign(G_i) · scale
//   result = Σ over workers, in their order, of ± (scale · (1/N))
//   E = G − what was sent
//
// Bins have bin_conv elements in parameters of three or more dimensions, bin_dense in others; the
// last may be short. Without error feedback E is zero in every step. One or two all-gathers; see
// gathered.h.
//
// The positions are coded in chunks of whole bins. While the chunks stream by the scale is not
// known yet, so E holds G, and what was sent is taken out of it when the chunk streams by in the
// next step: then it is in the cache anyway. Until that, or until someone asks for E, what was sent
// is *unsettled*.

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "methods/gathered.h"
#include "methods/momentum.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {
namespace {

uint32_t chunk_length_for(size_t bin_length) {
  return static_cast<uint32_t>(
      std::max(bin_length, wire::kDefaultChunkLength / bin_length * bin_length));
}

class AdacompState final : public GatheredState {
 public:
  AdacompState(const Parameter& parameter, size_t bin_length, bool error_feedback)
      : GatheredState(parameter,
                      {.elements = static_cast<uint64_t>(parameter.tensor.numel()),
                       .chunk_length = chunk_length_for(bin_length),
                       .with_signs = true},
                      error_feedback),
        bin_length_(bin_length) {
    expected_bytes = first_guess();
  }

  at::Tensor residual() const override {
    settle();
    return GatheredState::residual();
  }
  std::vector<StateTensor> tensors() override {
    settle();
    return GatheredState::tensors();
  }
  size_t bound() const override { return wire::adacomp_bound(shape_); }

  void encode(const at::Tensor& gradient, wire::PayloadWriter& writer) override {
    wire::PositionsWriter& positions = writer.begin_adacomp(shape_);
    const std::optional<float> scale =
        code.gathered.encode_bins(gradient, error_, unsettled(), bin_length_, shape_, positions);
    unsettled_positions_.clear();
    if (!scale) return writer.non_finite();
    if (error_.defined()) {
      const auto written = positions.written();
      unsettled_positions_.assign(written.begin(), written.end());
      unsettled_scale_ = *scale;
    }
    writer.end(*scale);
  }

  wire::SparseRecord read(wire::PayloadReader& reader) const override {
    return reader.adacomp(shape_);
  }

  void roll_back(const wire::SparseRecord& own, const at::Tensor& gradient) override {
    if (unsettled_positions_.empty()) return GatheredState::roll_back(own, gradient);
    unsettled_positions_.clear();  // they are this step's: nothing was taken out yet
    code.roll_back(gradient, error_);
  }

 private:
  // The first step sends the most, since with E = 0 every element of at least half its bin's
  // maximum is sent: of normally distributed ones a quarter in bins of 50, an eighth in bins of
  // 500. With their signs that is 1.1 and 0.7 bits for each element, sent or not.
  size_t first_guess() const {
    constexpr size_t record_header = 5;
    constexpr size_t chunk_header = 7;
    const size_t bits_of_8_elements = bin_length_ < 8     ? 16
                                      : bin_length_ < 32  ? 12
                                      : bin_length_ < 256 ? 9
                                                          : 6;
    const size_t body = shape_.elements / 64 * bits_of_8_elements + bits_of_8_elements;
    return std::min(record_header + chunk_header * shape_.chunks() + body, bound());
  }

  void settle() const {
    if (unsettled_positions_.empty()) return;
    code.gathered.add(unsettled(), -1, error_);
    unsettled_positions_.clear();
  }

  // What the last step has sent and E still holds.
  wire::SparseRecord unsettled() const {
    if (unsettled_positions_.empty()) return {};
    return {.contribution = wire::Contribution::present,
            .positions = {shape_, unsettled_positions_},
            .scale = unsettled_scale_,
            .values = {}};
  }

  size_t bin_length_;
  mutable std::vector<std::byte> unsettled_positions_;  // none: E is settled
  float unsettled_scale_ = 0;
};

std::unique_ptr<GatheredState> make_adacomp_state(const Parameter& parameter,
                                                  const OptionMap& options) {
  const bool convolution = parameter.kind() == ParameterKind::conv;
  const int64_t wanted = std::get<int64_t>(options.at(convolution ? "bin_conv" : "bin_dense"));
  // A bin that is longer than the parameter is the whole parameter.
  const int64_t bin_length =
      std::min({wanted, parameter.tensor.numel(), static_cast<int64_t>(wire::kLongestChunk)});
  return std::make_unique<AdacompState>(parameter, static_cast<size_t>(bin_length),
                                        std::get<bool>(options.at("error_feedback")));
}

// Payloads travel with a part of this more, because their size is agreed one step ahead.
constexpr size_t kAdacompRoom = 8;

// How much travels depends on the gradients: by default as much as published.
planner::BucketCost adacomp_cost(const planner::BucketView& bucket) {
  const double conv_rate = bucket.option("adacomp_conv_rate");
  const double dense_rate = bucket.option("adacomp_dense_rate");
  double payload = 0;
  for (const planner::ParameterShape& parameter : bucket.parameters()) {
    payload += planner::kRecordBytes +
               parameter.bytes() / (parameter.shape.size() >= 3 ? conv_rate : dense_rate);
  }
  return planner::gathered(bucket, (1 + 1.0 / kAdacompRoom) * payload);
}

}  // namespace

MethodEntry adacomp_method() {
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  return {
      .name = "adacomp",
      .summary = "AdaComp: the leading elements of every bin, as signs with one scale",
      .options = {integer_option("bin_conv", 50, 1), integer_option("bin_dense", 500, 1),
                  boolean_option("error_feedback", true), momentum_option()},
      .parameter_options = {"bin_conv", "bin_dense", "error_feedback", "momentum"},
      .create = [](const OptionMap&) -> std::unique_ptr<Method> {
        const GatheredFormat format{wire::Method::adacomp, wire::ValueType::none, kAdacompRoom};
        return std::make_unique<GatheredMethod>(format, make_adacomp_state);
      },
      .facts = delayed_facts,
      .variants = {{"adacomp-bins-of-50", {{"bin_dense", int64_t{50}}}},
                   {"adacomp-momentum", {{"momentum", 0.9}}}},
      .models = {{.name = "adacomp",
                  .colour = "#56b4e9",
                  .loss = 5,
                  .options = {{"adacomp_conv_rate", 40.0, kLeast, planner::kUnlimited, "positive",
                               "compression rate of convolutions"},
                              {"adacomp_dense_rate", 200.0, kLeast, planner::kUnlimited, "positive",
                               "compression rate of everything else"}},
                  .kernels = {.encode = 4.8, .decode = 2.7, .decode_payload = 5},
                  .tensor_operations = {.encode = 16, .decode = 2, .decode_payload = 40},
                  .cost = adacomp_cost}},
  };
}

}  // namespace gradwire
