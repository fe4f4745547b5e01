#pragma once

// What topk and adacomp share: every worker encodes a payload of its own size per part, and all
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

#include "methods/method.h"
#include "wire/payload.h"

namespace gradwire {

// A parameter's residual, and how its gradient becomes a record. Gradients are flat, contiguous and
// fp32.
class GatheredState : public ParameterState {
 public:
  GatheredState(const Parameter& parameter, const wire::PositionsShape& shape, bool error_feedback);

  at::Tensor residual() const override { return residual_; }
  std::vector<StateTensor> tensors() override;

  // Writes one record of a gradient that is not all zero and takes what it holds out of the
  // residual. If the gradient is not finite, the record says so and the residual is as before.
  // May overwrite the gradient only where there is no error feedback.
  virtual void encode(const at::Tensor& gradient, wire::PayloadWriter& writer) = 0;
  virtual wire::SparseRecord read(wire::PayloadReader& reader) const = 0;
  // Makes the residual what it was before encode() wrote `own`, up to rounding.
  virtual void roll_back(const wire::SparseRecord& own, const at::Tensor& gradient);
  // No record is larger.
  virtual size_t bound() const = 0;

  // The size the next record is expected to have: at first a guess from the shape, then the largest
  // any worker had. The same on all workers, so it is made of integers only.
  size_t expected_bytes = 0;

 protected:
  wire::PositionsShape shape_;
  at::Tensor residual_;  // in the parameter's shape; undefined without error feedback
  at::Tensor error_;     // the same memory, flat
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

// For tests: while it lives, the capacity is this many bytes, whatever is expected.
class ForceCapacity {
 public:
  explicit ForceCapacity(size_t bytes);
  ~ForceCapacity();
  ForceCapacity(const ForceCapacity&) = delete;
  ForceCapacity& operator=(const ForceCapacity&) = delete;
};

}  // namespace gradwire
