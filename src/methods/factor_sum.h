#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "methods/method.h"

namespace gradwire {

// How factors travel: as they are, or rounded. With integers each column of a factor is quantised
// in blocks of 64 (kernels/quant.h).
enum class FactorType : uint8_t { fp32, bf16, int8, int4 };

FactorType factor_type(const OptionMap& options);
int64_t factor_bits(FactorType type);  // of an element
// What a factor takes up in a payload.
int64_t factor_bytes(FactorType type, int64_t rows, int64_t rank);

struct FactorShape {
  int64_t rows;
  int64_t rank;
};

// The sums over the workers of some factors, as rounds, and of numbers that are not rounded. In
// fp32 they take one all-reduce. Rounded ones take an all-to-all of slices, a sum in fp32 of the
// slice that this worker owns, and an all-gather of the means, rounded once more: the volume of a
// ring, and two roundings however many workers.
class FactorSum {
 public:
  virtual ~FactorSum() = default;

  // This worker's numbers before start(), their sums after the last round.
  virtual at::Tensor numbers() const = 0;
  // Sets this worker's contribution to a factor.
  virtual void put(size_t factor, const at::Tensor& values) = 0;
  virtual Round start() = 0;
  // After start(): this worker's contribution as it travels. Nothing writes to it afterwards.
  virtual at::Tensor sent(size_t factor) = 0;
  virtual std::optional<Round> complete_round() = 0;
  // After the last round. The tensor may be a part of the payload.
  virtual at::Tensor sum(size_t factor) = 0;
  // After the last round: what the sum has of this worker, which is what it has sent, less what its
  // own rounding has taken from the sum. Undefined if that is nothing.
  at::Tensor arrived(size_t factor, const at::Tensor& sent);
  // Of the payload, beyond what numbers and factors take up: slices are of one length.
  virtual int64_t padding_bytes() const = 0;

  static int rounds(FactorType type) { return type == FactorType::fp32 ? 1 : 2; }

 private:
  // What the second rounding has taken from the sum, where this worker did that rounding; undefined
  // if it did none of the factor.
  virtual at::Tensor lost(size_t factor) = 0;
};

std::unique_ptr<FactorSum> make_factor_sum(FactorType type, const std::vector<FactorShape>& factors,
                                           int64_t numbers, const at::TensorOptions& options,
                                           const Step& step, BufferPool& buffers);

}  // namespace gradwire
