#pragma once

// What `quant` and `sign` by blocks share: the parameters of a bucket as a run of records, one per
// block, all of the same size (kernels/quant.h). Every parameter begins with a new block.
//
// If a gradient is not finite, all blocks of its parameter are marked, so that everyone who gets
// some of them hears of it and can roll back.

#include <vector>

#include "methods/method.h"

namespace gradwire {

// The option `block`, with what 0 stands for.
OptionSpec block_option(int64_t default_block, const std::string& zero_means);

// The residual of a parameter; undefined without error feedback.
class BlockState final : public ParameterState {
 public:
  BlockState(const at::Tensor& parameter, bool error_feedback);

  at::Tensor residual() const override { return error_; }
  std::vector<StateTensor> tensors() override;
  // Some elements of the residual, flat.
  at::Tensor error_at(int64_t first, int64_t elements) const;

 private:
  at::Tensor error_;  // in the parameter's shape
};

// One parameter's place in the payload.
struct BlockPart {
  Slot slot;
  BlockState* state;
  int64_t first_block;
  int64_t blocks;
  bool encoded = false;  // the residual has this step in it
  bool finite = true;    // on all workers

  const QuantCode& code() const { return state->code.quant; }
  int64_t elements() const { return slot.memory.numel(); }
  at::Tensor gradient() const { return slot.load().view(-1); }
  at::Tensor error() const { return state->error_at(0, elements()); }
};

class BlockPayload {
 public:
  BlockPayload(const std::vector<Slot>& slots, const QuantFormat& format, BufferPool& buffers);

  std::vector<BlockPart>& parts() { return parts_; }
  const std::vector<BlockPart>& parts() const { return parts_; }
  int64_t blocks() const { return parts_.back().first_block + parts_.back().blocks; }
  int64_t record_bytes() const { return static_cast<int64_t>(format_.record_bytes()); }
  // What each part takes up.
  std::vector<int64_t> bytes() const;

  // Memory for so many records.
  at::Tensor take(int64_t blocks) const;
  at::Tensor records(const at::Tensor& payload, int64_t first_block, int64_t blocks) const {
    return payload.narrow(0, first_block * record_bytes(), blocks * record_bytes());
  }
  at::Tensor records(const at::Tensor& payload, const BlockPart& part) const {
    return records(payload, part.first_block, part.blocks);
  }

  // Writes the records of all gradients, each with its residual, to the beginning of `payload`.
  void encode(const at::Tensor& payload);
  // As if that had not been, for a part whose slot still holds the gradient.
  void roll_back(const BlockPart& part, const at::Tensor& payload) const;
  // Stores factor · the sum of the contributions as the result, or NaN if the part is not finite.
  void decode(const BlockPart& part, const std::vector<at::Tensor>& contributions,
              float factor) const;

 private:
  void encode(BlockPart& part, const at::Tensor& records) const;

  QuantFormat format_;
  BufferPool& buffers_;
  std::vector<BlockPart> parts_;
};

}  // namespace gradwire
