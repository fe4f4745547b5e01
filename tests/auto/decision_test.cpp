#include "auto/decision.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gradwire {
namespace {

TEST(Decision, IsJudgedByTheClock) {
  const Decision decision{.methods = {{kWholeModel, "half"}}, .expected_seconds = 1};
  EXPECT_FALSE(is_surprising(decision, 1.19));
  EXPECT_FALSE(is_surprising(decision, 0.81));
  EXPECT_TRUE(is_surprising(decision, 1.21));
  EXPECT_TRUE(is_surprising(decision, 0.79));
}

Decision taking(double seconds, double loss) { return {.expected_seconds = seconds, .loss = loss}; }

TEST(BestDecision, FollowsTheRuleOfPlans) {
  const std::vector<Decision> decisions = {taking(7.6, 3), taking(9.0, 1), taking(10, 0)};
  EXPECT_EQ(&best_of(decisions), &decisions[1]);
}

TEST(Decision, SurvivesItsFile) {
  const Decision decision{.methods = {{"a.weight", "acpsgd"}, {"b", "half"}},
                          .expected_seconds = 0.25,
                          .plain_seconds = 1.5,
                          .loss = 2};
  const Decision read = decision_from_json(to_json(decision));
  EXPECT_EQ(read.methods, decision.methods);
  EXPECT_EQ(read.expected_seconds, 0.25);
  EXPECT_EQ(read.plain_seconds, 1.5);
  EXPECT_EQ(read.loss, 2);
  EXPECT_THROW(decision_from_json(nlohmann::json(3)), std::invalid_argument);
  nlohmann::json damaged = to_json(decision);
  damaged["methods"]["b"] = 7;
  EXPECT_THROW(decision_from_json(damaged), std::invalid_argument);
}

TEST(Decision, IsTold) {
  Decision decision{
      .methods = {{kWholeModel, "topk"}}, .expected_seconds = 0.25, .plain_seconds = 1.5};
  EXPECT_EQ(describe(decision),
            "auto: topk; a step is expected to take 250 ms, uncompressed 1.5 s");
  decision.methods = {{"a", "topk"}, {"b", "half"}, {"c", "topk"}};
  EXPECT_TRUE(describe(decision).starts_with("auto: half and topk; a step"));
  decision.methods = {};
  EXPECT_TRUE(describe(decision).starts_with("auto: allreduce; a step"));
}

TEST(UsualSeconds, LeavesOutWhatIsNoStep) {
  // Four steps, then an evaluation, and so on: three of nine intervals have one in them.
  const std::vector<double> steps = {30, 1.0, 1.1, 1.3, 30, 1.2, 1.0, 1.1, 30};
  EXPECT_DOUBLE_EQ(usual_seconds(steps), 1.1);
  EXPECT_DOUBLE_EQ(usual_seconds({2.0, 3.0}), 2.5);
  // A link that has become slow makes all of them long, or most.
  EXPECT_DOUBLE_EQ(usual_seconds({9.0, 10.0, 11.0}), 10);
  EXPECT_DOUBLE_EQ(usual_seconds({1.0, 1.0, 9.0, 10.0, 11.0}), 9);
}

}  // namespace
}  // namespace gradwire
