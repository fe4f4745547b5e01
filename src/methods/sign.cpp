// Sign-SGD: one bit per element. What the modes do with it is in sign_feedback.cpp, sign_blocks.cpp
// and sign_vote.cpp.

#include <limits>
#include <stdexcept>

#include "methods/block_payload.h"
#include "methods/momentum.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"

namespace gradwire {

std::unique_ptr<Method> make_sign_feedback();
std::unique_ptr<Method> make_sign_blocks(int64_t block);
std::unique_ptr<Method> make_sign_vote(float scale);

namespace {

bool is_vote(const OptionMap& options) {
  const auto mode = options.find("mode");
  return mode != options.end() && std::get<std::string>(mode->second) == "vote";
}

// Larger blocks send less and lose more.
constexpr int64_t kDefaultBlock = 64;

}  // namespace

MethodEntry sign_method() {
  const double largest = std::numeric_limits<float>::max();
  return {
      .name = "sign",
      .summary = "Sign-SGD: one bit per element, with error feedback or by majority vote",
      .options = {choice_option("mode", {"ef", "vote"}, "ef"),
                  number_option("vote_scale", 1.0, 0, largest, /*open_below=*/true),
                  block_option(kDefaultBlock, "one scale per parameter"),
                  boolean_option("error_feedback", true), momentum_option()},
      .parameter_options = {"error_feedback", "momentum"},
      .create = [](const OptionMap& options) -> std::unique_ptr<Method> {
        const auto block = std::get<int64_t>(options.at("block"));
        if (!is_vote(options)) return block == 0 ? make_sign_feedback() : make_sign_blocks(block);
        return make_sign_vote(static_cast<float>(std::get<double>(options.at("vote_scale"))));
      },
      .complete =
          [](const OptionMap& given, OptionMap& options) {
            if (!is_vote(given)) return;
            for (const char* name : {"error_feedback", "block", "momentum"}) {
              if (!given.contains(name)) continue;
              throw std::invalid_argument(std::string("[sign] ") + name +
                                          " goes with mode=\"ef\" only");
            }
            options["block"] = int64_t{0};
          },
      .facts =
          [](const OptionMap& options) {
            const bool vote = is_vote(options);
            return Facts{.loss_class = LossClass::delayed,
                         .keeps_residual = !vote && std::get<bool>(options.at("error_feedback")),
                         .model = vote ? 1U : 0U,
                         .momentum = momentum_of(options)};
          },
      .variants = {{"sign-vote", {{"mode", std::string("vote")}}},
                   {"sign-one-scale", {{"block", int64_t{0}}}},
                   {"sign-momentum", {{"momentum", 0.9}}}},
      .models = {{.name = "sign",
                  .colour = "#cc79a7",
                  .loss = 6,
                  .kernels = {.encode = 4, .decode = 1.5, .decode_payload = 10},
                  .tensor_operations = {.encode = 12, .decode = 2, .decode_payload = 150},
                  .cost =
                      [](const planner::BucketView& bucket) {
                        const QuantFormat format{1, kDefaultBlock};
                        return planner::gathered(
                            bucket,
                            planner::bytes_in_blocks(bucket, format.block, format.record_bytes()));
                      }},
                 {.name = "sign-vote",
                  .colour = "#8a6d3b",
                  .loss = 7,
                  .kernels = {.encode = 2.2, .between = 0.6, .decode = 1.6},
                  .tensor_operations = {.encode = 6, .between = 8, .decode = 6},
                  .cost =
                      [](const planner::BucketView& bucket) {
                        return planner::by_slices(bucket, planner::bytes_in_blocks(bucket, 8, 1));
                      }}},
  };
}

}  // namespace gradwire
