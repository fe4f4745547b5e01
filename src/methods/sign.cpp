// Sign-SGD: one bit per element. What the modes do with it is in sign_feedback.cpp and
// sign_vote.cpp.

#include <limits>
#include <stdexcept>

#include "methods/registry.h"

namespace gradwire {

std::unique_ptr<Method> make_sign_feedback();
std::unique_ptr<Method> make_sign_vote(float scale);

namespace {

bool is_vote(const OptionMap& options) {
  const auto mode = options.find("mode");
  return mode != options.end() && std::get<std::string>(mode->second) == "vote";
}

}  // namespace

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
