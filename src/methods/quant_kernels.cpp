#include "kernels/quant.h"

#include <atomic>

#include "methods/device_code.h"
#include "methods/pieces.h"

namespace gradwire {
namespace {

using RecordPointers = std::vector<const uint8_t*>;

std::span<uint8_t> record_bytes_of(const at::Tensor& records) {
  return {records.mutable_data_ptr<uint8_t>(), static_cast<size_t>(records.numel())};
}

// A part of the work: some blocks, their elements and their records.
struct BlockRange {
  size_t first;
  size_t count;
  size_t offset;  // of the first record, in bytes
  size_t bytes;

  std::span<float> elements_of(const at::Tensor& tensor) const {
    return tensor.defined() ? floats_of(tensor).subspan(first, count) : std::span<float>();
  }
  std::span<uint8_t> records_of(const at::Tensor& records) const {
    return record_bytes_of(records).subspan(offset, bytes);
  }
  RecordPointers records_of(const std::vector<at::Tensor>& contributions) const {
    RecordPointers pointers;
    for (const at::Tensor& records : contributions) pointers.push_back(records_of(records).data());
    return pointers;
  }
};

// Calls function(range) for ranges of whole blocks, in parallel where there are several.
template <typename Function>
void for_each_block_range(const QuantFormat& format, int64_t elements, const Function& function) {
  const size_t blocks = std::max<size_t>(1, kPiece / format.block);
  for_each_piece(elements, static_cast<int64_t>(blocks * format.block),
                 [&](size_t first, size_t count) {
                   function(BlockRange{.first = first,
                                       .count = count,
                                       .offset = first / format.block * format.record_bytes(),
                                       .bytes = format.bytes(count)});
                 });
}

class QuantKernels final : public QuantCode {
 public:
  bool quantise(const QuantFormat& format, const at::Tensor& gradient, const at::Tensor& residual,
                const at::Tensor& records) const override {
    std::atomic<bool> finite = true;
    for_each_block_range(format, gradient.numel(), [&](const BlockRange& range) {
      if (!kernels::quantise(format, range.elements_of(gradient), range.elements_of(residual),
                             range.records_of(records))) {
        finite = false;
      }
    });
    return finite;
  }

  void roll_back_quantised(const QuantFormat& format, const at::Tensor& gradient,
                           const at::Tensor& records, const at::Tensor& residual) const override {
    for_each_block_range(format, gradient.numel(), [&](const BlockRange& range) {
      kernels::roll_back_quantised(format, range.elements_of(gradient), range.records_of(records),
                                   range.elements_of(residual));
    });
  }

  void mark_not_finite(const QuantFormat& format, const at::Tensor& records) const override {
    kernels::mark_not_finite(format, whole_blocks(format, records), record_bytes_of(records));
  }

  bool all_finite(const QuantFormat& format, const at::Tensor& records) const override {
    return kernels::all_finite(format, whole_blocks(format, records), record_bytes_of(records));
  }

  void average(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
               int64_t elements, const at::Tensor& residual,
               const at::Tensor& records) const override {
    for_each_block_range(format, elements, [&](const BlockRange& range) {
      kernels::average_quantised(format, range.records_of(contributions), range.count,
                                 range.elements_of(residual), range.records_of(records));
    });
  }

  void roll_back_average(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
                         const at::Tensor& records, const at::Tensor& residual) const override {
    for_each_block_range(format, residual.numel(), [&](const BlockRange& range) {
      kernels::roll_back_average(format, range.records_of(contributions), range.records_of(records),
                                 range.elements_of(residual));
    });
  }

  void sum(const QuantFormat& format, const std::vector<at::Tensor>& contributions, float factor,
           const at::Tensor& result) const override {
    for_each_block_range(format, result.numel(), [&](const BlockRange& range) {
      kernels::sum_quantised(format, range.records_of(contributions), factor,
                             range.elements_of(result));
    });
  }

 private:
  static size_t whole_blocks(const QuantFormat& format, const at::Tensor& records) {
    return static_cast<size_t>(records.numel()) / format.record_bytes() * format.block;
  }
};

}  // namespace

const QuantCode& quant_kernels() {
  static const QuantKernels code;
  return code;
}

}  // namespace gradwire
