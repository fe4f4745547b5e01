// Sign-SGD: one bit per element. What the modes do with it is in sign_feedback.cpp and
// sign_vote.cpp.

#include "methods/sign.h"

#include <limits>
#include <stdexcept>

#include "methods/registry.h"

namespace gradwire {
namespace {

at::Tensor bit_values(const at::Device& device) {
  return at::bitwise_left_shift(at::ones({8}, at::kByte), at::arange(8, at::kByte)).to(device);
}

bool is_vote(const OptionMap& options) {
  const auto mode = options.find("mode");
  return mode != options.end() && std::get<std::string>(mode->second) == "vote";
}

}  // namespace

at::Tensor pack_bits(const at::Tensor& positive) {
  const at::Tensor flat = positive.reshape(-1).to(at::kByte);
  const at::Tensor whole = at::constant_pad_nd(flat, {0, (8 - flat.numel() % 8) % 8});
  return (whole.view({-1, 8}) * bit_values(flat.device())).sum(1, false, at::kByte);
}

at::Tensor unpack_bits(const at::Tensor& bits, int64_t elements) {
  const at::Tensor single = bits.unsqueeze(1).bitwise_and(bit_values(bits.device()));
  return single.ne(0).view(-1).narrow(0, 0, elements);
}

at::Tensor signed_scale(const at::Tensor& positive, float scale) {
  return positive.to(at::kFloat).mul_(2).sub_(1).mul_(scale);
}

MethodEntry sign_method() {
  const double largest = std::numeric_limits<float>::max();
  return {
      .name = "sign",
      .summary = "Sign-SGD: one bit per element, with error feedback or by majority vote",
      .options = {choice_option("mode", {"ef", "vote"}),
                  number_option("vote_scale", 1.0, 0, largest, /*open_below=*/true),
                  boolean_option("error_feedback", true)},
      .parameter_options = {"error_feedback"},
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        if (!is_vote(options)) return make_sign_feedback();
        return make_sign_vote(static_cast<float>(std::get<double>(options.at("vote_scale"))));
      },
      .check =
          [](const OptionMap& given) {
            if (is_vote(given) && given.contains("error_feedback")) {
              throw std::invalid_argument("[sign] error_feedback goes with mode=\"ef\" only");
            }
          },
  };
}

}  // namespace gradwire
