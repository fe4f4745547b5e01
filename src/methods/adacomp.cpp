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
// The kernel's blocks are the chunks that the positions are coded in. While the blocks stream by
// the scale is not known yet, so E holds G, and what was sent is taken out of it when the block
// streams by in the next step: then it is in the cache anyway. Until that, or until someone asks
// for E, it is *unsettled*.

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/adacomp.h"
#include "kernels/roll_back.h"
#include "methods/chunk_tasks.h"
#include "methods/gathered.h"
#include "methods/registry.h"

namespace gradwire {
namespace {

// What a step has sent and E still holds.
struct Unsettled {
  std::vector<std::byte> positions;  // none: E is settled
  float scale = 0;
};

// One pass over all blocks of a parameter, on several threads: E settled, then E := G, and the
// selection coded.
class Selection {
 public:
  // Without error feedback `error` is empty.
  Selection(std::span<const float> gradient, std::span<float> error, const Unsettled& unsettled,
            size_t bin_length, const wire::PositionsShape& shape)
      : gradient_(gradient),
        error_(error),
        bin_length_(bin_length),
        shape_(shape),
        sent_before_(-unsettled.scale),
        blocks_(shape.chunks()),
        parts_(tasks_of(shape)) {
    std::vector<SectionPlace> places;
    if (!unsettled.positions.empty()) {
      const wire::PositionsReader section(shape_, unsettled.positions);
      places = places_of(shape_, {&section, 1});
    }
    const size_t room = wire::positions_bound(shape_of_task());
    // Mostly address space: only what the positions take up of it is touched.
    memory_ = std::make_unique_for_overwrite<std::byte[]>(room * parts_.size());
    run_tasks(shape_, [&](uint64_t task, uint64_t first, uint64_t end) {
      parts_[task] = wire::PositionsWriter(shape_, {memory_.get() + task * room, room}, first);
      select(first, end, places.empty() ? nullptr : &places[task].reader, parts_[task]);
    });
  }

  bool finite() const {
    for (uint64_t chunk = 0; chunk < blocks_.size(); ++chunk) {
      if (blocks_[chunk].done < shape_.length_of(chunk)) return false;
    }
    return true;
  }

  // E := what it was, settled, up to rounding.
  void undo() const {
    if (error_.empty()) return;
    for (uint64_t chunk = 0; chunk < blocks_.size(); ++chunk) {
      const ChunkRange done{range_of(shape_, chunk).begin, blocks_[chunk].done};
      kernels::roll_back(done.of(gradient_), done.of(error_));
    }
  }

  float scale() const {
    double sum = 0;
    for (const kernels::AdacompBlock& block : blocks_) sum += block.gmax_sum;
    const size_t bins = (gradient_.size() + bin_length_ - 1) / bin_length_;
    return static_cast<float>(sum / static_cast<double>(bins));
  }

  void write(wire::PositionsWriter& positions) const {
    for (const wire::PositionsWriter& part : parts_) positions.append(part);
  }

 private:
  wire::PositionsShape shape_of_task() const {
    wire::PositionsShape shape = shape_;
    shape.elements = std::min(shape.elements, kChunksPerTask * shape.chunk_length);
    return shape;
  }

  // Every block is run even after one that is not finite, so that what undo() rounds does not
  // depend on how the blocks were shared out.
  void select(uint64_t first, uint64_t end, wire::PositionsReader* unsettled,
              wire::PositionsWriter& part) {
    const size_t room = shape_.length_of(first);
    const auto entries = std::make_unique_for_overwrite<uint32_t[]>(room);
    std::vector<float> blank(error_.empty() ? room : 0);
    bool finite = true;
    for (uint64_t chunk = first; chunk < end; ++chunk) {
      const ChunkRange range = range_of(shape_, chunk);
      std::ranges::fill(blank, 0.0F);
      const std::span<float> error =
          error_.empty() ? std::span(blank).first(range.length) : range.of(error_);
      if (unsettled != nullptr) {
        kernels::add_signed(error, unsettled->next({entries.get(), room}), sent_before_);
      }
      const kernels::AdacompBlock block =
          kernels::adacomp_select(range.of(gradient_), error, bin_length_, entries.get());
      finite = finite && block.done == range.length;
      if (finite) part.chunk({entries.get(), block.selected});
      blocks_[chunk] = block;
    }
  }

  std::span<const float> gradient_;
  std::span<float> error_;
  size_t bin_length_;
  wire::PositionsShape shape_;
  float sent_before_;
  std::vector<kernels::AdacompBlock> blocks_;
  std::vector<wire::PositionsWriter> parts_;  // of every task
  std::unique_ptr<std::byte[]> memory_;       // for the parts
};

// The entries of all chunks, from the parameter's start and ascending, chunk by chunk.
void write_entries(std::span<const int64_t> entries, wire::PositionsWriter& positions,
                   const wire::PositionsShape& shape) {
  std::vector<uint32_t> of_chunk;
  while (!positions.complete()) {
    const ChunkRange range = range_of(shape, positions.next_chunk());
    const auto base = static_cast<int64_t>(2 * range.begin);
    const auto end =
        std::ranges::lower_bound(entries, base + static_cast<int64_t>(2 * range.length));
    const auto count = static_cast<size_t>(end - entries.begin());
    of_chunk.clear();
    for (const int64_t entry : entries.first(count)) {
      of_chunk.push_back(static_cast<uint32_t>(entry - base));
    }
    positions.chunk(of_chunk);
    entries = entries.subspan(count);
  }
}

class AdacompState final : public GatheredState {
 public:
  AdacompState(const Parameter& parameter, size_t bin_length, bool error_feedback)
      : GatheredState(
            parameter,
            {.elements = static_cast<uint64_t>(parameter.tensor.numel()),
             .chunk_length = static_cast<uint32_t>(kernels::adacomp_block_length(bin_length)),
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
    if (!uses_kernels_) return encode_with_aten(gradient, writer);
    const std::span<float> error = error_.defined() ? floats_of(error_) : std::span<float>();
    std::optional<Selection> selection;
    selection.emplace(floats_of(gradient), error, unsettled_, bin_length_, shape_);
    unsettled_ = {};
    if (!selection->finite()) {
      selection->undo();
      return writer.non_finite();
    }
    wire::PositionsWriter& positions = writer.begin_adacomp(shape_);
    selection->write(positions);
    const float scale = selection->scale();
    selection.reset();  // before a second copy of the positions is made
    if (error_.defined()) {
      const auto written = positions.written();
      unsettled_ = {{written.begin(), written.end()}, scale};
    }
    writer.end(scale);
  }

  GatheredRecord read(wire::PayloadReader& reader) const override {
    const wire::AdacompRecord record = reader.adacomp(shape_);
    return {.contribution = record.contribution,
            .positions = record.positions,
            .scale = record.scale,
            .values = {}};
  }

  void decode(std::span<const GatheredRecord> records, float share,
              at::Tensor& result) const override {
    if (!uses_kernels_) return decode_with_aten(records, share, result);
    const std::span<float> sum = floats_of(result);
    sum_records(shape_, records, sum,
                [&](size_t i, const ChunkRange& range, std::span<const uint32_t> entries, size_t) {
                  kernels::add_signed(range.of(sum), entries, records[i].scale * share);
                });
  }

  void undo(const GatheredRecord& own, const at::Tensor& gradient) override {
    if (!uses_kernels_) {
      add_with_aten(all_entries(own.positions), own.scale, error_);
      error_.sub_(gradient);
      return;
    }
    if (unsettled_.positions.empty()) {
      add(own.positions, own.scale, floats_of(error_));
    } else {
      unsettled_ = {};  // it is this step's: nothing was taken out yet
    }
    kernels::roll_back(floats_of(gradient), floats_of(error_));
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
    if (unsettled_.positions.empty()) return;
    add(wire::PositionsReader(shape_, unsettled_.positions), -unsettled_.scale, floats_of(error_));
    unsettled_ = {};
  }

  static void add(const wire::PositionsReader& section, float scale, std::span<float> target) {
    visit_chunks(section, [&](const ChunkRange& range, std::span<const uint32_t> entries, size_t) {
      kernels::add_signed(range.of(target), entries, scale);
    });
  }

  void encode_with_aten(const at::Tensor& gradient, wire::PayloadWriter& writer) {
    const at::Tensor total = error_.defined() ? error_ + gradient : gradient;
    if (!at::isfinite(total).all().item<bool>()) return writer.non_finite();
    const auto length = static_cast<int64_t>(bin_length_);
    const int64_t bins = (total.numel() + length - 1) / length;
    const auto in_bins = [&](const at::Tensor& values) {
      return at::constant_pad_nd(values.abs(), {0, bins * length - values.numel()})
          .view({bins, length});
    };
    const at::Tensor gmax = in_bins(total).amax(1, /*keepdim=*/true);
    const at::Tensor sent = in_bins(total + gradient).ge(gmax).logical_and_(gmax.gt(0));
    const at::Tensor positions = sent.view(-1).narrow(0, 0, total.numel()).nonzero().view(-1);
    const at::Tensor negative = total.index_select(0, positions).lt(0).to(at::kLong);
    const at::Tensor entries = positions * 2 + negative;
    const auto scale =
        static_cast<float>(gmax.sum(at::kDouble).item<double>() / static_cast<double>(bins));

    const at::Tensor on_host = entries.cpu();
    wire::PositionsWriter& section = writer.begin_adacomp(shape_);
    write_entries({on_host.const_data_ptr<int64_t>(), static_cast<size_t>(on_host.numel())},
                  section, shape_);
    writer.end(scale);
    if (error_.defined()) {
      error_.copy_(total);
      add_with_aten(entries, -scale, error_);
    }
  }

  void decode_with_aten(std::span<const GatheredRecord> records, float share,
                        at::Tensor& result) const {
    result.zero_();
    for (const GatheredRecord& record : records) {
      add_with_aten(all_entries(record.positions), record.scale * share, result);
    }
  }

  static void add_with_aten(const at::Tensor& entries, float scale, at::Tensor& target) {
    const at::Tensor on_device = entries.to(target.device());
    const at::Tensor signs = 1 - 2 * on_device.bitwise_and(1);
    target.index_add_(0, on_device.bitwise_right_shift(1), signs.to(at::kFloat) * scale);
  }

  size_t bin_length_;
  mutable Unsettled unsettled_;  // with the kernels only
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

}  // namespace

MethodEntry adacomp_method() {
  return {
      .name = "adacomp",
      .summary = "AdaComp: the leading elements of every bin, as signs with one scale",
      .options = {integer_option("bin_conv", 50, 1), integer_option("bin_dense", 500, 1),
                  boolean_option("error_feedback", true)},
      .parameter_options = {"bin_conv", "bin_dense", "error_feedback"},
      .create = [](const OptionMap&) -> std::unique_ptr<Method> {
        const GatheredFormat format{wire::Method::adacomp, wire::ValueType::none, 8};
        return std::make_unique<GatheredMethod>(format, make_adacomp_state);
      },
  };
}

}  // namespace gradwire
