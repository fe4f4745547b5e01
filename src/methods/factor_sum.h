#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "methods/method.h"

namespace gradwire {

// The sum over the workers of a vector of fp32 numbers, as rounds. One all-reduce; or, with bf16 on
// the wire, an all-to-all of rounded slices, a sum in fp32 of the slice this worker owns, and an
// all-gather of the sums, rounded once more: the volume of a ring, and two roundings however many
// workers.
class FactorSum {
 public:
  FactorSum(int64_t length, const at::TensorOptions& options, const Step& step, bool bf16,
            BufferPool& buffers);

  // This worker's numbers before start(), the sum after the last round.
  at::Tensor& values() { return values_; }
  Round start();
  std::optional<Round> complete_round();

  static int rounds(bool bf16) { return bf16 ? 2 : 1; }
  // What `length` numbers take up in the payload.
  static int64_t bytes(int64_t length, bool bf16) { return length * (bf16 ? 2 : 4); }
  // What the payload has beyond that: slices are of one length.
  int64_t padding_bytes() const {
    return bf16_ ? bytes(workers_ * slice_length() - values_.numel(), bf16_) : 0;
  }

 private:
  int64_t slice_length() const { return (values_.numel() + workers_ - 1) / workers_; }

  at::Tensor values_;
  int workers_;
  bool bf16_;
  BufferPool& buffers_;
  int completed_ = 0;
  at::Tensor slices_;    // received: every worker's version of the slice this worker owns
  at::Tensor gathered_;  // received: the sums of all slices
};

}  // namespace gradwire
