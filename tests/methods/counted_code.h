#pragma once

// A device's code that counts the calls of each of its functions.

#include <map>
#include <string>

#include "methods/device_code.h"

namespace gradwire {

class CallCounts {
 public:
  // What `function` of this family returns, counted.
  template <class Function>
  auto of(const std::string& name, const Function& function) const {
    ++calls_[name];
    return function();
  }
  int operator[](const std::string& name) const { return calls_[name]; }

 private:
  mutable std::map<std::string, int> calls_;
};

class CountedQuant final : public QuantCode {
 public:
  CountedQuant(const QuantCode& code, const CallCounts& counts) : code_(code), counts_(counts) {}
  bool quantise(const QuantFormat& format, const at::Tensor& gradient, const at::Tensor& residual,
                const at::Tensor& records) const override {
    return counts_.of("quant.quantise",
                      [&] { return code_.quantise(format, gradient, residual, records); });
  }
  void roll_back_quantised(const QuantFormat& format, const at::Tensor& gradient,
                           const at::Tensor& records, const at::Tensor& residual) const override {
    counts_.of("quant.roll_back_quantised",
               [&] { code_.roll_back_quantised(format, gradient, records, residual); });
  }
  void mark_not_finite(const QuantFormat& format, const at::Tensor& records) const override {
    counts_.of("quant.mark_not_finite", [&] { code_.mark_not_finite(format, records); });
  }
  bool all_finite(const QuantFormat& format, const at::Tensor& records) const override {
    return counts_.of("quant.all_finite", [&] { return code_.all_finite(format, records); });
  }
  void average(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
               int64_t elements, const at::Tensor& residual,
               const at::Tensor& records) const override {
    counts_.of("quant.average",
               [&] { code_.average(format, contributions, elements, residual, records); });
  }
  void roll_back_average(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
                         const at::Tensor& records, const at::Tensor& residual) const override {
    counts_.of("quant.roll_back_average",
               [&] { code_.roll_back_average(format, contributions, records, residual); });
  }
  void sum(const QuantFormat& format, const std::vector<at::Tensor>& contributions, float factor,
           const at::Tensor& result) const override {
    counts_.of("quant.sum", [&] { code_.sum(format, contributions, factor, result); });
  }

 private:
  const QuantCode& code_;
  const CallCounts& counts_;
};

class CountedSign final : public SignCode {
 public:
  CountedSign(const SignCode& code, const CallCounts& counts) : code_(code), counts_(counts) {}
  std::optional<float> encode(const at::Tensor& gradient, const at::Tensor& total, float pending,
                              std::span<uint8_t> bits) const override {
    return counts_.of("sign.encode", [&] { return code_.encode(gradient, total, pending, bits); });
  }
  void settle(const at::Tensor& total, float pending) const override {
    counts_.of("sign.settle", [&] { code_.settle(total, pending); });
  }
  void decode(std::span<const SignContribution> contributions, const at::Tensor& received,
              float factor, const at::Tensor& result) const override {
    counts_.of("sign.decode", [&] { code_.decode(contributions, received, factor, result); });
  }
  bool pack(const at::Tensor& gradient, const at::Tensor& bits) const override {
    return counts_.of("sign.pack", [&] { return code_.pack(gradient, bits); });
  }
  void count(const std::vector<at::Tensor>& voters, const at::Tensor& outcome) const override {
    counts_.of("sign.count", [&] { code_.count(voters, outcome); });
  }
  void expand(const at::Tensor& bits, float scale, const at::Tensor& result) const override {
    counts_.of("sign.expand", [&] { code_.expand(bits, scale, result); });
  }

 private:
  const SignCode& code_;
  const CallCounts& counts_;
};

class CountedLowRank final : public LowRankCode {
 public:
  CountedLowRank(const LowRankCode& code, const CallCounts& counts)
      : code_(code), counts_(counts) {}
  bool encode(Side side, const at::Tensor& gradient, const at::Tensor& residual,
              const FactorPair& pending, const at::Tensor& basis,
              const at::Tensor& product) const override {
    return counts_.of(side == Side::left ? "low_rank.encode left" : "low_rank.encode right", [&] {
      return code_.encode(side, gradient, residual, pending, basis, product);
    });
  }
  void multiply(Side side, const at::Tensor& matrix, const at::Tensor& basis,
                const at::Tensor& product) const override {
    counts_.of(side == Side::left ? "low_rank.multiply left" : "low_rank.multiply right",
               [&] { code_.multiply(side, matrix, basis, product); });
  }
  void settle(const at::Tensor& residual, const FactorPair& pending) const override {
    counts_.of("low_rank.settle", [&] { code_.settle(residual, pending); });
  }
  void multiply_factors(const FactorPair& factors, double factor,
                        const at::Tensor& result) const override {
    counts_.of("low_rank.multiply_factors",
               [&] { code_.multiply_factors(factors, factor, result); });
  }
  void orthonormalise(const at::Tensor& factor) const override {
    counts_.of("low_rank.orthonormalise", [&] { code_.orthonormalise(factor); });
  }

 private:
  const LowRankCode& code_;
  const CallCounts& counts_;
};

class CountedGathered final : public GatheredCode {
 public:
  CountedGathered(const GatheredCode& code, const CallCounts& counts)
      : code_(code), counts_(counts) {}
  void encode_largest(const at::Tensor& gradient, const at::Tensor& error,
                      const wire::PositionsShape& shape, size_t k, wire::ValueType type,
                      wire::PayloadWriter& writer) const override {
    counts_.of("gathered.encode_largest",
               [&] { code_.encode_largest(gradient, error, shape, k, type, writer); });
  }
  std::optional<float> encode_bins(const at::Tensor& gradient, const at::Tensor& error,
                                   const wire::SparseRecord& unsettled, size_t bin_length,
                                   const wire::PositionsShape& shape,
                                   wire::PositionsWriter& positions) const override {
    return counts_.of("gathered.encode_bins", [&] {
      return code_.encode_bins(gradient, error, unsettled, bin_length, shape, positions);
    });
  }
  void add(const wire::SparseRecord& record, float factor,
           const at::Tensor& target) const override {
    counts_.of("gathered.add", [&] { code_.add(record, factor, target); });
  }
  void sum(std::span<const wire::SparseRecord> records, float factor,
           const at::Tensor& result) const override {
    counts_.of("gathered.sum", [&] { code_.sum(records, factor, result); });
  }

 private:
  const GatheredCode& code_;
  const CallCounts& counts_;
};

class CountedCode final : public DeviceCode {
 public:
  explicit CountedCode(const DeviceCode& code)
      : DeviceCode(code.is_host, quant_, sign_, low_rank_, gathered_),
        code_(code),
        quant_(code.quant, counts_),
        sign_(code.sign, counts_),
        low_rank_(code.low_rank, counts_),
        gathered_(code.gathered, counts_) {}

  int calls(const std::string& name) const { return counts_[name]; }
  static std::vector<std::string> functions() {
    return {"is_zero",
            "all_finite",
            "roll_back",
            "add_scaled",
            "narrow",
            "widen",
            "average",
            "quant.quantise",
            "quant.roll_back_quantised",
            "quant.mark_not_finite",
            "quant.all_finite",
            "quant.average",
            "quant.roll_back_average",
            "quant.sum",
            "sign.encode",
            "sign.settle",
            "sign.decode",
            "sign.pack",
            "sign.count",
            "sign.expand",
            "low_rank.encode left",
            "low_rank.encode right",
            "low_rank.multiply left",
            "low_rank.multiply right",
            "low_rank.settle",
            "low_rank.multiply_factors",
            "low_rank.orthonormalise",
            "gathered.encode_largest",
            "gathered.encode_bins",
            "gathered.add",
            "gathered.sum"};
  }

  bool is_zero(const at::Tensor& gradient) const override {
    return counts_.of("is_zero", [&] { return code_.is_zero(gradient); });
  }
  bool all_finite(const at::Tensor& values) const override {
    return counts_.of("all_finite", [&] { return code_.all_finite(values); });
  }
  void roll_back(const at::Tensor& gradient, const at::Tensor& residual) const override {
    counts_.of("roll_back", [&] { code_.roll_back(gradient, residual); });
  }
  void add_scaled(const at::Tensor& a, float factor, const at::Tensor& b,
                  const at::Tensor& sum) const override {
    counts_.of("add_scaled", [&] { code_.add_scaled(a, factor, b, sum); });
  }
  void narrow(const at::Tensor& gradient, const at::Tensor& halves) const override {
    counts_.of("narrow", [&] { code_.narrow(gradient, halves); });
  }
  void widen(const at::Tensor& halves, const at::Tensor& result) const override {
    counts_.of("widen", [&] { code_.widen(halves, result); });
  }
  void average(const at::Tensor& slices, int64_t count) const override {
    counts_.of("average", [&] { code_.average(slices, count); });
  }

 private:
  const DeviceCode& code_;
  CallCounts counts_;
  CountedQuant quant_;
  CountedSign sign_;
  CountedLowRank low_rank_;
  CountedGathered gathered_;
};

}  // namespace gradwire
