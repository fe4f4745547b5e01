#pragma once

// What topk and adacomp share: every worker encodes a payload of its own size per bucket, and all
// payloads go to all workers.
//
// A collective gathers equal sizes, and agreeing on one first would cost a round trip in the middle
// of backward. So the *capacity*, the bytes every worker sends, is agreed one step ahead: each
// parameter remembers the largest record that any worker sent of it last time, which all workers
// know alike. Every payload says how much it *needed*; where that is more than the capacity on some
// worker, all of them make one further round for the rest, the *overflow*. The result never depends
// on the capacity.
//
// Rounds:  1. all-gather of `capacity` bytes
//          2. all-gather of `largest needed - capacity` bytes, only where that is above 0
//
// What is remembered belongs to the parameter, not to the bucket: DDP makes new buckets after the
// first step, and their sizes are known from the old ones.

#include <ATen/ATen.h>

#include <cstddef>
#include <span>

#include "methods/chunk_tasks.h"
#include "methods/method.h"
#include "wire/payload.h"

namespace gradwire {

// One worker's record of one parameter, of either method.
struct GatheredRecord {
  wire::Contribution contribution = wire::Contribution::abstains;
  wire::PositionsReader positions;
  float scale = 0;      // adacomp
  wire::Values values;  // topk
};

// A parameter's residual, and how its gradient becomes a record and records a result. Gradients and
// results are flat, contiguous and fp32.
class GatheredState : public ParameterState {
 public:
  GatheredState(const Parameter& parameter, const wire::PositionsShape& shape, bool error_feedback);

  at::Tensor residual() const override { return residual_; }
  std::vector<StateTensor> tensors() override;

  // Writes one record of a gradient that is not all zero and takes what it holds out of the
  // residual. If the gradient is not finite, the record says so and the residual is as before.
  // May overwrite the gradient only where there is no error feedback.
  virtual void encode(const at::Tensor& gradient, wire::PayloadWriter& writer) = 0;
  virtual GatheredRecord read(wire::PayloadReader& reader) const = 0;
  // result = the sum of the records, which are all present and in the order of workers, each
  // times `share`.
  virtual void decode(std::span<const GatheredRecord> records, float share,
                      at::Tensor& result) const = 0;
  // Makes the residual what it was before encode() wrote `own`, up to rounding.
  virtual void undo(const GatheredRecord& own, const at::Tensor& gradient) = 0;
  // No record is larger.
  virtual size_t bound() const = 0;

  // The size the next record is expected to have: at first a guess from the shape, then the largest
  // any worker had. The same on all workers, so it is made of integers only.
  size_t expected_bytes = 0;

 protected:
  wire::PositionsShape shape_;
  at::Tensor residual_;  // in the parameter's shape; undefined without error feedback
  at::Tensor error_;     // the same memory, flat
  bool uses_kernels_;
};

struct GatheredFormat {
  wire::Method method;
  wire::ValueType values = wire::ValueType::none;
  // The capacity is this part of what is expected, one in so many, above it.
  size_t slack_divisor = 8;
};

class GatheredMethod final : public Method {
 public:
  using MakeState = std::unique_ptr<GatheredState> (*)(const Parameter&, const OptionMap&);

  GatheredMethod(GatheredFormat format, MakeState make_state)
      : format_(format), make_state_(make_state) {}

  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override;
  int rounds() const override { return 2; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override;

 private:
  GatheredFormat format_;
  MakeState make_state_;
};

inline std::span<float> floats_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// sum = what add(record, range, entries, number of the record's entries before them) adds up to,
// chunk by chunk, in the order of records.
template <class Add>
void sum_records(const wire::PositionsShape& shape, std::span<const GatheredRecord> records,
                 std::span<float> sum, const Add& add) {
  std::vector<wire::PositionsReader> sections;
  for (const GatheredRecord& record : records) sections.push_back(record.positions);
  visit_chunks(
      shape, sections, [&](const ChunkRange& range) { std::ranges::fill(range.of(sum), 0.0F); },
      add);
}

// All entries of a section, from the parameter's start, as int64 on the host: positions, or with
// signs 2 * position + (1 if negative). For the path in ATen ops.
at::Tensor all_entries(wire::PositionsReader positions);

// For tests: while it lives, the capacity is this many bytes, whatever is expected.
class ForceCapacity {
 public:
  explicit ForceCapacity(size_t bytes);
  ~ForceCapacity();
  ForceCapacity(const ForceCapacity&) = delete;
  ForceCapacity& operator=(const ForceCapacity&) = delete;
};

}  // namespace gradwire
