// Sums go chunk by chunk, so that a chunk is in the cache while every worker's part is added to it.
// topk gathers its candidates, and adacomp settles its residual, in the pass that computes G.

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/adacomp.h"
#include "kernels/roll_back.h"
#include "kernels/scan.h"
#include "kernels/topk.h"
#include "methods/chunk_tasks.h"
#include "methods/gathered.h"
#include "methods/pieces.h"

namespace gradwire {
namespace {

kernels::HalfFormat half_format(wire::ValueType type) {
  return type == wire::ValueType::bf16 ? kernels::HalfFormat::kBfloat16
                                       : kernels::HalfFormat::kFloat16;
}

// Adds the values from number `first` on, times `factor`, to the elements at `positions`.
void add_values(std::span<float> target, std::span<const uint32_t> positions,
                const wire::Values& values, size_t first, float factor) {
  constexpr size_t batch = 1024;
  float wide[batch];
  uint16_t halves[batch];
  for (size_t start = 0; start < positions.size(); start += batch) {
    const size_t count = std::min(batch, positions.size() - start);
    if (values.type() == wire::ValueType::fp32) {
      values.read(first + start, {wide, count});
    } else {
      values.read(first + start, {halves, count});
      kernels::widen(half_format(values.type()), {halves, count}, {wide, count});
    }
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

// One pass over all blocks of a parameter, on several threads: E settled, then E := G, and the
// selection coded.
class Selection {
 public:
  // Without error feedback `error` is empty.
  Selection(std::span<const float> gradient, std::span<float> error,
            const wire::SparseRecord& unsettled, size_t bin_length,
            const wire::PositionsShape& shape)
      : gradient_(gradient),
        error_(error),
        bin_length_(bin_length),
        shape_(shape),
        sent_before_(-unsettled.scale),
        blocks_(shape.chunks()),
        parts_(tasks_of(shape)) {
    std::vector<SectionPlace> places;
    if (unsettled.contribution == wire::Contribution::present) {
      places = places_of(shape_, {&unsettled.positions, 1});
    }
    wire::PositionsShape of_task = shape;
    of_task.elements = std::min(shape.elements, kChunksPerTask * shape.chunk_length);
    const size_t room = wire::positions_bound(of_task);
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
  void roll_back() const {
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
  // Every block is run even after one that is not finite, so that what roll_back() rounds does not
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

class GatheredKernels final : public GatheredCode {
 public:
  void encode_largest(const at::Tensor& gradient, const at::Tensor& error,
                      const wire::PositionsShape& shape, size_t k, wire::ValueType type,
                      wire::PayloadWriter& writer) const override {
    const std::span<float> added = floats_of(gradient);
    if (error.defined()) {
      Accumulation accumulation(added, floats_of(error), k);
      return send(floats_of(error), accumulation.run(), shape, type, writer);
    }
    if (!kernels::all_finite(added)) return writer.non_finite();
    const auto selected = std::make_unique_for_overwrite<uint32_t[]>(k);
    kernels::select_largest({}, added, {selected.get(), k});
    send(added, {selected.get(), k}, shape, type, writer);
  }

  std::optional<float> encode_bins(const at::Tensor& gradient, const at::Tensor& error,
                                   const wire::SparseRecord& unsettled, size_t bin_length,
                                   const wire::PositionsShape& shape,
                                   wire::PositionsWriter& positions) const override {
    const Selection selection(floats_of(gradient), floats_of(error), unsettled, bin_length, shape);
    if (!selection.finite()) {
      selection.roll_back();
      return std::nullopt;
    }
    selection.write(positions);
    return selection.scale();
  }

  void add(const wire::SparseRecord& record, float factor,
           const at::Tensor& target) const override {
    add_all({&record, 1}, factor, floats_of(target), /*from_zero=*/false);
  }

  void sum(std::span<const wire::SparseRecord> records, float factor,
           const at::Tensor& result) const override {
    if (records.empty()) {
      result.zero_();
    } else {
      add_all(records, factor, floats_of(result), /*from_zero=*/true);
    }
  }

 private:
  // Takes the selected elements out of `total` and writes them; none says that it is not finite.
  static void send(std::span<float> total, std::span<const uint32_t> selected,
                   const wire::PositionsShape& shape, wire::ValueType type,
                   wire::PayloadWriter& writer) {
    if (selected.empty()) return writer.non_finite();
    if (type == wire::ValueType::fp32) {
      send_values<float>(selected, shape, writer,
                         [&](auto indices, auto values) { kernels::take(total, indices, values); });
    } else {
      send_values<uint16_t>(selected, shape, writer, [&](auto indices, auto values) {
        kernels::take_rounded(half_format(type), total, indices, values);
      });
    }
  }

  template <typename Word, typename Take>
  static void send_values(std::span<const uint32_t> selected, const wire::PositionsShape& shape,
                          wire::PayloadWriter& writer, const Take& take) {
    const auto memory = std::make_unique_for_overwrite<Word[]>(selected.size());
    const std::span<Word> values(memory.get(), selected.size());
    for_each_piece(static_cast<int64_t>(selected.size()), [&](size_t first, size_t count) {
      take(selected.subspan(first, count), values.subspan(first, count));
    });
    writer.topk(shape, selected, std::span<const Word>(values));
  }

  static void add_all(std::span<const wire::SparseRecord> records, float factor,
                      std::span<float> target, bool from_zero) {
    std::vector<wire::PositionsReader> sections;
    for (const wire::SparseRecord& record : records) sections.push_back(record.positions);
    const wire::PositionsShape shape = sections.front().shape();
    visit_chunks(
        shape, sections,
        [&](const ChunkRange& range) {
          if (from_zero) std::ranges::fill(range.of(target), 0.0F);
        },
        [&](size_t i, const ChunkRange& range, std::span<const uint32_t> entries, size_t before) {
          if (shape.with_signs) {
            kernels::add_signed(range.of(target), entries, records[i].scale * factor);
          } else {
            add_values(range.of(target), entries, records[i].values, before, factor);
          }
        });
  }
};

const GatheredKernels kGatheredKernels;

}  // namespace

const GatheredCode& gathered_kernels() { return kGatheredKernels; }

}  // namespace gradwire
