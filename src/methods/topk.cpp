// Top-k SGD: of every parameter the k largest elements by magnitude, exactly.
//
//   G = g + E ;  send the k largest |G|, of equal ones those with the lower index
//   result = Σ over workers, in their order, of value · (1/N)
//   E = G, and at what was sent whatever the rounding of the values left over (0 for fp32)
//
// k = max(1, floor(density · n + 0.5)), per parameter. Without error feedback E is not kept: G is
// the gradient itself. One or two all-gathers; see gathered.h.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/topk.h"
#include "kernels/roll_back.h"
#include "methods/chunk_tasks.h"
#include "methods/gathered.h"
#include "methods/registry.h"

namespace gradwire {
namespace {

wire::ValueType value_type(const OptionMap& options) {
  const auto& name = std::get<std::string>(options.at("dtype"));
  if (name == "fp32") return wire::ValueType::fp32;
  return name == "bf16" ? wire::ValueType::bf16 : wire::ValueType::fp16;
}

kernels::HalfFormat half_format(wire::ValueType type) {
  return type == wire::ValueType::bf16 ? kernels::HalfFormat::kBfloat16
                                       : kernels::HalfFormat::kFloat16;
}

// The values from number `first` on, as fp32, as many as there is room for.
void read_values(const wire::Values& values, size_t first, std::span<float> out) {
  if (values.type() == wire::ValueType::fp32) return values.read(first, out);
  constexpr size_t batch = 1024;
  uint16_t halves[batch];
  for (size_t start = 0; start < out.size(); start += batch) {
    const size_t count = std::min(batch, out.size() - start);
    values.read(first + start, {halves, count});
    kernels::widen(half_format(values.type()), {halves, count}, out.subspan(start, count));
  }
}

// Adds the values from number `first` on, times `factor`, to the elements at `positions`.
void add_values(std::span<float> target, std::span<const uint32_t> positions,
                const wire::Values& values, size_t first, float factor) {
  constexpr size_t batch = 1024;
  float wide[batch];
  for (size_t start = 0; start < positions.size(); start += batch) {
    const size_t count = std::min(batch, positions.size() - start);
    read_values(values, first + start, {wide, count});
    kernels::add_scaled(target, positions.subspan(start, count), {wide, count}, factor);
  }
}

// Adds the gradient to the residual, E := G, and selects from it.
class Accumulation {
 public:
  Accumulation(std::span<const float> gradient, std::span<float> error, size_t k)
      : gradient_(gradient), error_(error), k_(k) {
    divide();
  }

  // The ascending positions of the k largest, valid as long as this is; none, with the residual as
  // it was, if some G is not finite.
  std::span<const uint32_t> run() {
    std::vector<size_t> done(ranges_.size());
    at::parallel_for(0, static_cast<int64_t>(ranges_.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        done[i] = kernels::accumulate(part(gradient_, i), part(error_, i),
                                      static_cast<uint32_t>(i * length_), floor_, ranges_[i]);
      }
    });
    bool finite = true;
    for (size_t i = 0; i < ranges_.size(); ++i) finite &= done[i] == part(gradient_, i).size();
    if (finite) {
      // Over the candidates themselves: no more can be selected than have been passed.
      const std::span<uint32_t> selected(memory_.get(), k_);
      kernels::select_largest(ranges_, error_, selected);
      return selected;
    }
    for (size_t i = 0; i < ranges_.size(); ++i) {
      kernels::roll_back(part(gradient_, i).first(done[i]), part(error_, i).first(done[i]));
    }
    return {};
  }

 private:
  template <typename T>
  std::span<T> part(std::span<T> whole, size_t range) const {
    const size_t begin = range * length_;
    return whole.subspan(begin, std::min(length_, whole.size() - begin));
  }

  // One range per thread. The selection does not depend on how the elements are divided, only the
  // number of candidates that find room does; the fewer ranges, the less it matters where the large
  // elements lie.
  void divide() {
    constexpr size_t worthwhile = 64 * kernels::kTopkBlock;
    const size_t size = gradient_.size();
    const auto threads = static_cast<size_t>(at::get_num_threads());
    const size_t wanted = std::clamp<size_t>(size / worthwhile, 1, threads);
    const size_t blocks = (size + kernels::kTopkBlock - 1) / kernels::kTopkBlock;
    length_ = (blocks + wanted - 1) / wanted * kernels::kTopkBlock;
    const size_t ranges = (size + length_ - 1) / length_;

    const size_t capacity = kernels::candidate_capacity(size, k_);
    if (capacity > 0) {
      uint32_t sample[kernels::kTopkSample];
      floor_ = kernels::estimate_floor(gradient_, error_, k_, sample);
    }
    // Twice an even share, should one range have more than the others; most of it stays untouched.
    const size_t room = ranges == 1 ? capacity : 2 * capacity / ranges;
    memory_ = std::make_unique_for_overwrite<uint32_t[]>(std::max(k_, 2 * ranges * room));
    for (size_t i = 0; i < ranges; ++i) {
      uint32_t* const begin = memory_.get() + 2 * i * room;
      ranges_.push_back({{begin, room}, {begin + room, room}});
    }
  }

  std::span<const float> gradient_;
  std::span<float> error_;
  size_t k_;
  size_t length_ = 0;                                     // of a range
  float floor_ = std::numeric_limits<float>::infinity();  // none is a candidate
  std::vector<kernels::Candidates> ranges_;
  std::unique_ptr<uint32_t[]> memory_;  // [range: indices, then magnitudes]
};

// Calls run(begin, end) for ranges of the sent elements, on several threads.
template <class Run>
void for_sent(size_t count, const Run& run) {
  constexpr int64_t worthwhile = 32768;
  at::parallel_for(0, static_cast<int64_t>(count), worthwhile, [&](int64_t begin, int64_t end) {
    run(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  });
}

// The positions of the k largest, ascending; of equal ones the first.
at::Tensor positions_of_largest(const at::Tensor& magnitudes, int64_t k) {
  const at::Tensor cut = std::get<0>(magnitudes.topk(k)).min();
  const at::Tensor above = magnitudes.gt(cut).nonzero().view(-1);
  const at::Tensor ties = magnitudes.eq(cut).nonzero().view(-1).narrow(0, 0, k - above.numel());
  return std::get<0>(at::cat({above, ties}).sort());
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
    if (!uses_kernels_) return encode_with_aten(gradient, writer);
    const std::span<float> added = floats_of(gradient);
    if (error_.defined()) {
      Accumulation accumulation(added, floats_of(error_), k_);
      return send(floats_of(error_), accumulation.run(), writer);
    }
    const auto [least, most] = gradient.aminmax();
    if (!std::isfinite(least.item<float>()) || !std::isfinite(most.item<float>())) {
      return writer.non_finite();
    }
    const auto selected = std::make_unique_for_overwrite<uint32_t[]>(k_);
    kernels::select_largest({}, added, {selected.get(), k_});
    send(added, {selected.get(), k_}, writer);
  }

  GatheredRecord read(wire::PayloadReader& reader) const override {
    const wire::TopkRecord record = reader.topk(shape_);
    return {.contribution = record.contribution,
            .positions = record.positions,
            .values = record.values};
  }

  void decode(std::span<const GatheredRecord> records, float share,
              at::Tensor& result) const override {
    if (!uses_kernels_) return decode_with_aten(records, share, result);
    const std::span<float> sum = floats_of(result);
    sum_records(
        shape_, records, sum,
        [&](size_t i, const ChunkRange& range, std::span<const uint32_t> positions, size_t before) {
          add_values(range.of(sum), positions, records[i].values, before, share);
        });
  }

  void undo(const GatheredRecord& own, const at::Tensor& gradient) override {
    if (!uses_kernels_) {
      add_with_aten(own, 1.0F, error_);
      error_.sub_(gradient);
      return;
    }
    const std::span<const float> added = floats_of(gradient);
    const std::span<float> error = floats_of(error_);
    visit_chunks(own.positions,
                 [&](const ChunkRange& range, std::span<const uint32_t> positions, size_t before) {
                   add_values(range.of(error), positions, own.values, before, 1.0F);
                   kernels::roll_back(range.of(added), range.of(error));
                 });
  }

 private:
  // As if the positions were independent of each other: log2(n / k) + 1.5 bits each, rounded up.
  size_t first_guess() const {
    constexpr size_t chunk_header = 7;
    const size_t bits = static_cast<size_t>(std::bit_width(shape_.elements / k_)) + 2;
    const size_t positions = k_ * bits / 8 + 1 + chunk_header * shape_.chunks();
    return std::min(1 + positions + k_ * wire::value_bytes(type_), bound());
  }

  // Takes the selected elements out of `total` and writes them; none says that it is not finite.
  void send(std::span<float> total, std::span<const uint32_t> selected,
            wire::PayloadWriter& writer) const {
    if (selected.empty()) return writer.non_finite();
    if (type_ == wire::ValueType::fp32) {
      const auto values = std::make_unique_for_overwrite<float[]>(k_);
      for_sent(k_, [&](size_t begin, size_t count) {
        kernels::take(total, selected.subspan(begin, count), {values.get() + begin, count});
      });
      writer.topk(shape_, selected, std::span<const float>(values.get(), k_));
    } else {
      const auto values = std::make_unique_for_overwrite<uint16_t[]>(k_);
      for_sent(k_, [&](size_t begin, size_t count) {
        kernels::take_rounded(half_format(type_), total, selected.subspan(begin, count),
                              {values.get() + begin, count});
      });
      writer.topk(shape_, selected, std::span<const uint16_t>(values.get(), k_));
    }
  }

  void encode_with_aten(const at::Tensor& gradient, wire::PayloadWriter& writer) {
    const at::Tensor total = error_.defined() ? gradient + error_ : gradient;
    if (!at::isfinite(total).all().item<bool>()) return writer.non_finite();
    const at::Tensor positions = positions_of_largest(total.abs(), static_cast<int64_t>(k_));
    const at::Tensor exact = total.index_select(0, positions);
    at::Tensor sent = exact;
    if (type_ != wire::ValueType::fp32) {
      const bool brain = type_ == wire::ValueType::bf16;
      const double largest = brain ? 0x1.FEp127 : 65504;
      sent = exact.clamp(-largest, largest).to(brain ? at::kBFloat16 : at::kHalf);
    }
    if (error_.defined()) {
      error_.copy_(total).index_copy_(0, positions, exact - sent.to(at::kFloat));
    }
    const at::Tensor host_positions = positions.to(at::kInt).cpu().contiguous();
    const at::Tensor host_values = sent.cpu().contiguous();
    const std::span selected(
        reinterpret_cast<const uint32_t*>(host_positions.const_data_ptr<int32_t>()), k_);
    if (type_ == wire::ValueType::fp32) {
      writer.topk(shape_, selected, std::span(host_values.const_data_ptr<float>(), k_));
    } else {
      writer.topk(shape_, selected,
                  std::span(static_cast<const uint16_t*>(host_values.const_data_ptr()), k_));
    }
  }

  void decode_with_aten(std::span<const GatheredRecord> records, float share,
                        at::Tensor& result) const {
    result.zero_();
    for (const GatheredRecord& record : records) add_with_aten(record, share, result);
  }

  static void add_with_aten(const GatheredRecord& record, float factor, at::Tensor& target) {
    const at::Tensor values = at::empty({static_cast<int64_t>(record.values.size())}, at::kFloat);
    read_values(record.values, 0, floats_of(values));
    target.index_add_(0, all_entries(record.positions).to(target.device()),
                      values.to(target.device()) * factor);
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

}  // namespace

MethodEntry topk_method() {
  return {
      .name = "topk",
      .summary =
          "Top-k SGD: the largest elements of every parameter, exactly, with their positions",
      .options = {number_option("density", 0.01, 0, 1, /*open_below=*/true),
                  choice_option("dtype", {"fp32", "bf16", "fp16"}),
                  boolean_option("error_feedback", true)},
      .parameter_options = {"density", "error_feedback"},
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        // k is fixed; only the coding of the positions varies from step to step, and little.
        const GatheredFormat format{wire::Method::topk, value_type(options), 64};
        return std::make_unique<GatheredMethod>(format, make_topk_state);
      },
  };
}

}  // namespace gradwire
