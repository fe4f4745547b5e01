#pragma once

// What a device computes of the methods. Every parameter has the DeviceCode of its device: the
// kernels on the CPU, the same steps in ATen ops on any other device. A method asks for a step and
// never where the tensors are. The sources *_aten.cpp are the definitions, to be read first;
// *_kernels.cpp do the same in as few passes over memory as possible.
//
// The code has no state of its own. Tensors are contiguous and fp32 where nothing else is said.

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/quant_format.h"
#include "wire/payload.h"

namespace gradwire {

// One worker's signs of a parameter.
struct SignContribution {
  std::span<const std::byte> bits;  // on the host
  int64_t offset;                   // of the same bytes in what was received, on the device
  float scale;
};

// Element i is bit i % 8 of byte i / 8, 1 for x >= 0; unused bits of the last byte are 0.
class SignCode {
 public:
  virtual ~SignCode() = default;
  // G = gradient + E, where E = total − pending · sign(total). Writes the signs of G to the host
  // and returns its mean magnitude; `total` then is G. Nothing if G is not finite; `total` then is
  // E. Without error feedback `total` is undefined and E zero.
  virtual std::optional<float> encode(const at::Tensor& gradient, const at::Tensor& total,
                                      float pending, std::span<uint8_t> bits) const = 0;
  // total −= pending · sign(total).
  virtual void settle(const at::Tensor& total, float pending) const = 0;
  // result = factor · the sum of scale · sign, in the order of the contributions.
  virtual void decode(std::span<const SignContribution> contributions, const at::Tensor& received,
                      float factor, const at::Tensor& result) const = 0;

  // The vote. Writes the signs; false if the gradient is not finite.
  virtual bool pack(const at::Tensor& gradient, const at::Tensor& bits) const = 0;
  // The majority of the voters' bits; a tie counts as 1.
  virtual void count(const std::vector<at::Tensor>& voters, const at::Tensor& outcome) const = 0;
  // result = scale · sign.
  virtual void expand(const at::Tensor& bits, float scale, const at::Tensor& result) const = 0;
};

// The matrix left · rightᵀ; undefined tensors stand for zero.
struct FactorPair {
  at::Tensor left;
  at::Tensor right;
};
enum class Side : uint8_t { left, right };

// The residual is E = residual − pending: a step leaves the product that it sends *pending*, and
// the next encode settles it while it reads the residual anyway. Afterwards nothing is pending.
class LowRankCode {
 public:
  virtual ~LowRankCode() = default;
  // residual = A = gradient + E; product = A · basis (left) or Aᵀ · basis (right). If A or the
  // product is not finite: false, and residual = E up to rounding.
  virtual bool encode(Side side, const at::Tensor& gradient, const at::Tensor& residual,
                      const FactorPair& pending, const at::Tensor& basis,
                      const at::Tensor& product) const = 0;
  // product = matrix · basis, or matrixᵀ · basis.
  virtual void multiply(Side side, const at::Tensor& matrix, const at::Tensor& basis,
                        const at::Tensor& product) const = 0;
  // residual −= pending.
  virtual void settle(const at::Tensor& residual, const FactorPair& pending) const = 0;
  // result = factor · left · rightᵀ. The same bits on every worker, whatever its number of threads.
  virtual void multiply_factors(const FactorPair& factors, double factor,
                                const at::Tensor& result) const = 0;
  // Replaces the columns by an orthonormal basis of the space they span, completed where they are
  // linearly dependent. Depends on nothing but its input, so that every worker gets the same.
  virtual void orthonormalise(const at::Tensor& factor) const = 0;
};

// Of topk and adacomp. All tensors are flat; without error feedback `error` is undefined.
class GatheredCode {
 public:
  virtual ~GatheredCode() = default;
  // Writes the record of the k largest of G = gradient + error. `error` then is G without what was
  // sent; if G is not finite, the record says so and `error` is as before, up to rounding. Without
  // error feedback the gradient may be overwritten.
  virtual void encode_largest(const at::Tensor& gradient, const at::Tensor& error,
                              const wire::PositionsShape& shape, size_t k, wire::ValueType type,
                              wire::PayloadWriter& writer) const = 0;
  // error = G = gradient + error − unsettled, which is adacomp's record of the step before if that
  // is present. Writes the positions that adacomp sends and returns the scale. If G is not finite:
  // nothing, and `error` without the unsettled is as before, up to rounding.
  virtual std::optional<float> encode_bins(const at::Tensor& gradient, const at::Tensor& error,
                                           const wire::SparseRecord& unsettled, size_t bin_length,
                                           const wire::PositionsShape& shape,
                                           wire::PositionsWriter& positions) const = 0;
  // target += factor · what the record holds.
  virtual void add(const wire::SparseRecord& record, float factor,
                   const at::Tensor& target) const = 0;
  // result = factor · the sum of the records, which are all present, in their order.
  virtual void sum(std::span<const wire::SparseRecord> records, float factor,
                   const at::Tensor& result) const = 0;
};

using kernels::QuantFormat;

// Block quantisation. kernels/quant.h has the format of the records; here every block has a whole
// record, so that of a short block ends with bytes that the caller has set to zero. Gradients,
// residuals and results are flat; without error feedback the residual is undefined.
class QuantCode {
 public:
  virtual ~QuantCode() = default;
  // Writes the records of G = gradient + residual; the residual becomes G − what they decode to.
  // False if a block is not finite; its residual then is as before.
  virtual bool quantise(const QuantFormat& format, const at::Tensor& gradient,
                        const at::Tensor& residual, const at::Tensor& records) const = 0;
  // Makes the residual what it was before quantise(), up to rounding.
  virtual void roll_back_quantised(const QuantFormat& format, const at::Tensor& gradient,
                                   const at::Tensor& records, const at::Tensor& residual) const = 0;
  virtual void mark_not_finite(const QuantFormat& format, const at::Tensor& records) const = 0;
  virtual bool all_finite(const QuantFormat& format, const at::Tensor& records) const = 0;
  // Writes the records of the mean of these contributions. Adds N times what their rounding loses
  // to the residual, except in blocks that are not finite.
  virtual void average(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
                       int64_t elements, const at::Tensor& residual,
                       const at::Tensor& records) const = 0;
  // Takes back what average() has added to the residual, up to rounding.
  virtual void roll_back_average(const QuantFormat& format,
                                 const std::vector<at::Tensor>& contributions,
                                 const at::Tensor& records, const at::Tensor& residual) const = 0;
  // result = factor · the sum of what the contributions decode to, in their order.
  virtual void sum(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
                   float factor, const at::Tensor& result) const = 0;
};

// All of a device's code: what several methods may need, and a family for each kind of method.
class DeviceCode {
 public:
  DeviceCode(bool host, const QuantCode& quant_, const SignCode& sign_,
             const LowRankCode& low_rank_, const GatheredCode& gathered_)
      : is_host(host), quant(quant_), sign(sign_), low_rank(low_rank_), gathered(gathered_) {}
  virtual ~DeviceCode() = default;

  // No element differs from zero: so looks the gradient of a parameter that this worker did not
  // use, which then abstains.
  virtual bool is_zero(const at::Tensor& gradient) const = 0;
  virtual bool all_finite(const at::Tensor& values) const = 0;
  // residual −= gradient: what it was before the gradient was added, up to rounding.
  virtual void roll_back(const at::Tensor& gradient, const at::Tensor& residual) const = 0;
  // sum = a + factor · b; `sum` may be a or b.
  virtual void add_scaled(const at::Tensor& a, float factor, const at::Tensor& b,
                          const at::Tensor& sum) const = 0;

  // `halves` are flat, in bf16 or fp16.
  virtual void narrow(const at::Tensor& gradient, const at::Tensor& halves) const = 0;
  virtual void widen(const at::Tensor& halves, const at::Tensor& result) const = 0;
  // The first of so many slices of equal length becomes their mean: added up in fp32, in their
  // order, and rounded once.
  virtual void average(const at::Tensor& slices, int64_t count) const = 0;

  const bool is_host;  // work is done when a call returns, and memory is the system's
  const QuantCode& quant;
  const SignCode& sign;
  const LowRankCode& low_rank;
  const GatheredCode& gathered;
};

// The only place that decides by the device.
const DeviceCode& code_for(at::Device device);
inline bool is_host(at::Device device) { return code_for(device).is_host; }

const DeviceCode& kernel_code();
const DeviceCode& aten_code();

// For tests, which have no other device: while it lives, every device has this code.
class ForceCode {
 public:
  explicit ForceCode(const DeviceCode& code);
  ~ForceCode();
  ForceCode(const ForceCode&) = delete;
  ForceCode& operator=(const ForceCode&) = delete;

 private:
  const DeviceCode* before_;
};

}  // namespace gradwire
