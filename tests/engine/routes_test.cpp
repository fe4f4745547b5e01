#include "engine/routes.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

std::vector<Parameter> parameters() {
  return {{"encoder.weight", torch::zeros({64, 64})},
          {"encoder.bias", torch::zeros({64})},
          {"lm_head.weight", torch::zeros({64, 64})},
          {"double.weight", torch::zeros({64, 64}, at::kDouble)}};
}

std::string error_of(const Request& request) {
  try {
    make_routes(request, parameters());
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Routes, IsPlainWhereNothingIsCompressed) {
  EXPECT_TRUE(make_routes({.method = "allreduce"}, parameters()).is_plain());
  EXPECT_FALSE(make_routes({.method = "acpsgd"}, parameters()).is_plain());
  EXPECT_TRUE(make_routes({.method = "acpsgd", .skip = {"*"}}, parameters()).is_plain());
  EXPECT_EQ(make_routes({.method = "acpsgd", .skip = {"*"}}, parameters()).loss_class(),
            LossClass::exact);
}

TEST(Routes, CompressesWhatThePatternsSay) {
  const Routes routes = make_routes({.method = "acpsgd",
                                     .options = {{"rank", int64_t{2}}},
                                     .skip = {"lm_head.*"},
                                     .per_parameter = {{"encoder.w*", {{"rank", int64_t{8}}}},
                                                       {"encoder.*", {{"rank", int64_t{5}}}}}},
                                    parameters());
  EXPECT_NE(routes.by_parameter[0].describe().find("rank=8"), std::string::npos)
      << routes.by_parameter[0].describe();
  EXPECT_EQ(routes.by_parameter[1].describe(), "uncompressed");
  EXPECT_EQ(routes.by_parameter[2].describe(), "uncompressed");
  EXPECT_EQ(routes.by_parameter[3].describe(), "uncompressed");
}

TEST(Routes, LetsAParameterHaveAnotherMethod) {
  const Routes routes =
      make_routes({.method = "allreduce",
                   .per_parameter = {{"encoder.*", {{"method", std::string("acpsgd")}}}}},
                  parameters());
  EXPECT_NE(routes.by_parameter[0].describe().find("acpsgd"), std::string::npos);
  EXPECT_EQ(routes.by_parameter[2].describe(), "uncompressed");
}

TEST(Routes, HasTheLossOfItsLossiestParameter) {
  const auto loss_class = [](const char* method, const char* of_head) {
    const OptionMap head = {{"method", std::string(of_head)}};
    const Request request{.method = method, .per_parameter = {{"lm_head.*", head}}};
    return make_routes(request, parameters()).loss_class();
  };
  EXPECT_EQ(loss_class("allreduce", "half"), LossClass::rounded);
  EXPECT_EQ(loss_class("half", "acpsgd"), LossClass::delayed);
  EXPECT_EQ(loss_class("acpsgd", "half"), LossClass::delayed);
}

TEST(Routes, PutsDifferentRanksIntoOneExchange) {
  const Routes routes = make_routes(
      {.method = "acpsgd", .per_parameter = {{"encoder.*", {{"rank", int64_t{8}}}}}}, parameters());
  EXPECT_EQ(routes.by_parameter[0].carrier, routes.by_parameter[2].carrier);
}

TEST(Routes, NamesWhatIsValid) {
  EXPECT_NE(error_of({.method = "nothing"}).find("the methods are: allreduce, "),
            std::string::npos);
  EXPECT_EQ(error_of({.method = "acpsgd", .options = {{"rnak", int64_t{4}}}}).substr(0, 42),
            "[acpsgd] has no option \"rnak\"; its options");
  EXPECT_EQ(error_of({.method = "acpsgd", .options = {{"rank", int64_t{0}}}}),
            "[acpsgd] rank must be an integer >= 1; got 0");
  EXPECT_EQ(error_of({.method = "acpsgd", .options = {{"rank", std::string("4")}}}),
            "[acpsgd] rank must be an integer >= 1; got \"4\"");
  EXPECT_EQ(error_of({.method = "allreduce", .options = {{"error_feedback", true}}}),
            "[allreduce] has no option \"error_feedback\"; its options are: none");
  EXPECT_EQ(error_of({.method = "acpsgd", .start_after = -1}), "start_after must be >= 0; got -1");
  EXPECT_NE(
      error_of({.method = "acpsgd", .per_parameter = {{"x*", {{"method", std::string("no")}}}}}),
      "");
}

}  // namespace
}  // namespace gradwire
