#include <algorithm>
#include <vector>

#include "methods/gathered.h"

namespace gradwire {
namespace {

// The positions of the k largest, ascending; of equal ones the first.
at::Tensor positions_of_largest(const at::Tensor& magnitudes, int64_t k) {
  const at::Tensor cut = std::get<0>(magnitudes.topk(k)).min();
  const at::Tensor above = magnitudes.gt(cut).nonzero().view(-1);
  const at::Tensor ties = magnitudes.eq(cut).nonzero().view(-1).narrow(0, 0, k - above.numel());
  return std::get<0>(at::cat({above, ties}).sort());
}

at::ScalarType scalar_type(wire::ValueType type) {
  if (type == wire::ValueType::fp32) return at::kFloat;
  return type == wire::ValueType::bf16 ? at::kBFloat16 : at::kHalf;
}

template <typename Word>
std::span<Word> words_on_host(const at::Tensor& tensor) {
  return {static_cast<Word*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel())};
}

at::Tensor values_on_host(const wire::Values& values) {
  const at::Tensor read =
      at::empty({static_cast<int64_t>(values.size())}, scalar_type(values.type()));
  if (values.type() == wire::ValueType::fp32) {
    values.read(0, words_on_host<float>(read));
  } else {
    values.read(0, words_on_host<uint16_t>(read));
  }
  return read.to(at::kFloat);
}

// All entries of a section, from the parameter's start, as int64 on the host: positions, or with
// signs 2 * position + (1 if negative).
at::Tensor all_entries(wire::PositionsReader positions) {
  const wire::PositionsShape shape = positions.shape();
  std::vector<int64_t> entries;
  std::vector<uint32_t> scratch(shape.length_of(0));
  while (!positions.done()) {
    const auto begin = static_cast<int64_t>(positions.next_chunk() * shape.chunk_length);
    for (const uint32_t entry : positions.next(scratch)) {
      entries.push_back((begin << (shape.with_signs ? 1 : 0)) + entry);
    }
  }
  return at::tensor(entries, at::kLong);
}

// Writes such entries, with signs, chunk by chunk.
void write_entries(std::span<const int64_t> entries, const wire::PositionsShape& shape,
                   wire::PositionsWriter& positions) {
  std::vector<uint32_t> of_chunk;
  for (uint64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
    const auto base = static_cast<int64_t>(2 * chunk * shape.chunk_length);
    const auto end = std::ranges::lower_bound(entries, base + 2 * int64_t{shape.length_of(chunk)});
    const auto count = static_cast<size_t>(end - entries.begin());
    of_chunk.clear();
    for (const int64_t entry : entries.first(count)) {
      of_chunk.push_back(static_cast<uint32_t>(entry - base));
    }
    positions.chunk(of_chunk);
    entries = entries.subspan(count);
  }
}

class GatheredAten final : public GatheredCode {
 public:
  void encode_largest(const at::Tensor& gradient, const at::Tensor& error,
                      const wire::PositionsShape& shape, size_t k, wire::ValueType type,
                      wire::PayloadWriter& writer) const override {
    const at::Tensor total = error.defined() ? gradient + error : gradient;
    if (!at::isfinite(total).all().item<bool>()) return writer.non_finite();
    const at::Tensor positions = positions_of_largest(total.abs(), static_cast<int64_t>(k));
    const at::Tensor exact = total.index_select(0, positions);
    const double largest = type == wire::ValueType::fp16 ? 65504 : 0x1.FEp127;
    const at::Tensor sent = type == wire::ValueType::fp32
                                ? exact
                                : exact.clamp(-largest, largest).to(scalar_type(type));
    if (error.defined()) {
      error.copy_(total).index_copy_(0, positions, exact - sent.to(at::kFloat));
    }
    const at::Tensor host_positions = positions.to(at::kInt).cpu();
    const at::Tensor host_values = sent.cpu();
    const std::span<const uint32_t> selected = words_on_host<uint32_t>(host_positions);
    if (type == wire::ValueType::fp32) {
      writer.topk(shape, selected, std::span<const float>(words_on_host<float>(host_values)));
    } else {
      writer.topk(shape, selected, std::span<const uint16_t>(words_on_host<uint16_t>(host_values)));
    }
  }

  std::optional<float> encode_bins(const at::Tensor& gradient, const at::Tensor& error,
                                   const wire::SparseRecord& unsettled, size_t bin_length,
                                   const wire::PositionsShape& shape,
                                   wire::PositionsWriter& positions) const override {
    if (unsettled.contribution == wire::Contribution::present) add(unsettled, -1, error);
    const at::Tensor total = error.defined() ? error + gradient : gradient;
    if (!at::isfinite(total).all().item<bool>()) return std::nullopt;
    const auto length = static_cast<int64_t>(bin_length);
    const int64_t bins = (total.numel() + length - 1) / length;
    const auto in_bins = [&](const at::Tensor& values) {
      return at::constant_pad_nd(values.abs(), {0, bins * length - values.numel()})
          .view({bins, length});
    };
    const at::Tensor gmax = in_bins(total).amax(1, /*keepdim=*/true);
    const at::Tensor sent = in_bins(total + gradient).ge(gmax).logical_and_(gmax.gt(0));
    const at::Tensor selected = sent.view(-1).narrow(0, 0, total.numel()).nonzero().view(-1);
    const at::Tensor negative = total.index_select(0, selected).lt(0).to(at::kLong);
    const at::Tensor entries = (selected * 2 + negative).cpu();
    write_entries(words_on_host<int64_t>(entries), shape, positions);
    if (error.defined()) error.copy_(total);
    return static_cast<float>(gmax.sum(at::kDouble).item<double>() / static_cast<double>(bins));
  }

  void add(const wire::SparseRecord& record, float factor,
           const at::Tensor& target) const override {
    const at::Tensor entries = all_entries(record.positions).to(target.device());
    if (record.positions.shape().with_signs) {
      const at::Tensor signs = 1 - 2 * entries.bitwise_and(1);
      target.index_add_(0, entries.bitwise_right_shift(1),
                        signs.to(at::kFloat) * (record.scale * factor));
    } else {
      target.index_add_(0, entries, values_on_host(record.values).to(target.device()) * factor);
    }
  }

  void sum(std::span<const wire::SparseRecord> records, float factor,
           const at::Tensor& result) const override {
    result.zero_();
    for (const wire::SparseRecord& record : records) add(record, factor, result);
  }
};

const GatheredAten kGatheredAten;

}  // namespace

const GatheredCode& gathered_aten() { return kGatheredAten; }

}  // namespace gradwire
