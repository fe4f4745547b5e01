#include <cmath>
#include <cstring>

#include "methods/device_code.h"

namespace gradwire {
namespace {

at::Tensor bit_values(const at::Device& device) {
  return at::bitwise_left_shift(at::ones({8}, at::kByte), at::arange(8, at::kByte)).to(device);
}

// The bits of a tensor of booleans.
at::Tensor pack_bits(const at::Tensor& positive) {
  const at::Tensor flat = positive.reshape(-1).to(at::kByte);
  const at::Tensor whole = at::constant_pad_nd(flat, {0, (8 - flat.numel() % 8) % 8});
  return (whole.view({-1, 8}) * bit_values(flat.device())).sum(1, false, at::kByte);
}

// The first `elements` bits as a flat tensor of booleans.
at::Tensor unpack_bits(const at::Tensor& bits, int64_t elements) {
  const at::Tensor single = bits.unsqueeze(1).bitwise_and(bit_values(bits.device()));
  return single.ne(0).view(-1).narrow(0, 0, elements);
}

// scale where positive, -scale elsewhere, as fp32.
at::Tensor signed_scale(const at::Tensor& positive, float scale) {
  return positive.to(at::kFloat).mul_(2).sub_(1).mul_(scale);
}

class SignAten final : public SignCode {
 public:
  std::optional<float> encode(const at::Tensor& gradient, const at::Tensor& total, float pending,
                              std::span<uint8_t> bits) const override {
    if (total.defined()) settle(total, pending);
    const at::Tensor added = total.defined() ? gradient + total : gradient;
    const double sum = added.abs().sum(at::kDouble).item<double>();
    if (!std::isfinite(sum)) return std::nullopt;
    const at::Tensor packed = pack_bits(added >= 0).cpu();
    std::memcpy(bits.data(), packed.const_data_ptr(), bits.size());
    if (total.defined()) total.copy_(added);
    return static_cast<float>(sum / static_cast<double>(gradient.numel()));
  }

  void settle(const at::Tensor& total, float pending) const override {
    total.sub_(signed_scale(total >= 0, pending));
  }

  void decode(std::span<const SignContribution> contributions, const at::Tensor& received,
              float factor, const at::Tensor& result) const override {
    at::Tensor flat = result.view(-1);
    flat.zero_();
    for (const SignContribution& contribution : contributions) {
      const auto length = static_cast<int64_t>(contribution.bits.size());
      const at::Tensor bits = received.narrow(0, contribution.offset, length);
      flat += signed_scale(unpack_bits(bits, flat.numel()), contribution.scale);
    }
    flat *= factor;
  }

  bool pack(const at::Tensor& gradient, const at::Tensor& bits) const override {
    bits.copy_(pack_bits(gradient >= 0));
    return at::isfinite(gradient).all().item<bool>();
  }

  void count(const std::vector<at::Tensor>& voters, const at::Tensor& outcome) const override {
    const int64_t elements = 8 * outcome.numel();
    at::Tensor votes = at::zeros({elements}, outcome.options().dtype(at::kInt));
    for (const at::Tensor& voter : voters) votes += unpack_bits(voter, elements);
    outcome.copy_(pack_bits(2 * votes >= static_cast<int64_t>(voters.size())));
  }

  void expand(const at::Tensor& bits, float scale, const at::Tensor& result) const override {
    result.view(-1).copy_(signed_scale(unpack_bits(bits, result.numel()), scale));
  }
};

const SignAten kSignAten;

}  // namespace

const SignCode& sign_aten() { return kSignAten; }

}  // namespace gradwire
