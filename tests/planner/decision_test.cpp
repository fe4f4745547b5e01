#include "planner/decision.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "example_profile.h"

namespace gradwire::planner {
namespace {

const std::vector<MethodChoice> kCandidates = {{.method = Method::half},
                                               {.method = Method::acpsgd}};

TEST(Decision, CompressesOnlyOnASlowLink) {
  const Profile profile = example_profile("bert-base", 0.3);
  const Decision fast = decide(profile, example_network(2, 400), kCandidates, 0.05);
  EXPECT_FALSE(fast.compresses());
  EXPECT_EQ(fast.expected_seconds, fast.plain_seconds);
  EXPECT_GE(fast.plain_seconds, 0.35);

  const Decision slow = decide(profile, example_network(2, 1), kCandidates, 0.05);
  EXPECT_TRUE(slow.compresses());
  EXPECT_LT(slow.expected_seconds, 0.5 * slow.plain_seconds);
}

TEST(Decision, IsJudgedByTheClock) {
  const Decision decision{
      .methods = {{"w", Method::half}}, .expected_seconds = 1, .plain_seconds = 1.5};
  EXPECT_EQ(judge(decision, 1.19), Verdict::as_expected);
  EXPECT_EQ(judge(decision, 0.81), Verdict::as_expected);
  EXPECT_EQ(judge(decision, 1.21), Verdict::surprising);
  EXPECT_EQ(judge(decision, 0.79), Verdict::surprising);
  EXPECT_EQ(judge(decision, 1.54), Verdict::slower);
  const Decision plain{.expected_seconds = 1.5, .plain_seconds = 1.5};
  EXPECT_EQ(judge(plain, 1.54), Verdict::as_expected);
  EXPECT_EQ(judge(plain, 3), Verdict::surprising);
}

TEST(Decision, TrustsMeasurementsMoreThanPredictions) {
  const Decision compressing{
      .methods = {{"w", Method::half}}, .expected_seconds = 1, .plain_seconds = 5};
  // Plain steps are running and take 2 s, not 5.
  const Decision after_plain = corrected(compressing, {}, {.seconds = 2, .exposed_seconds = 1.5});
  EXPECT_EQ(after_plain.plain_seconds, 2);
  EXPECT_EQ(after_plain.methods, compressing.methods);
  // They take 1.1 s: there is too little to gain.
  const Decision not_worth_it = corrected(compressing, {}, {.seconds = 1.1, .exposed_seconds = 1});
  EXPECT_FALSE(not_worth_it.compresses());
  EXPECT_EQ(not_worth_it.expected_seconds, 1.1);
  // They take 5 s, but communication is behind backward, all but 0.1 s of it.
  const Decision hidden = corrected(compressing, {}, {.seconds = 5, .exposed_seconds = 0.1});
  EXPECT_FALSE(hidden.compresses());
  EXPECT_EQ(hidden.expected_seconds, 5);
  // The same again: it takes as long as it takes.
  EXPECT_EQ(corrected(compressing, compressing, {.seconds = 1.3}).expected_seconds, 1.3);
  // Not given up for what the model thinks of it, when it is known to be fast.
  const Decision mistaken{
      .methods = {{"w", Method::half}}, .expected_seconds = 4.9, .plain_seconds = 5};
  EXPECT_TRUE(corrected(mistaken, compressing, {.seconds = 1.3}).compresses());
  // It was slower than plain steps had been: back to them, whatever the model thinks of them.
  const Decision running{
      .methods = {{"w", Method::half}}, .expected_seconds = 1, .plain_seconds = 2};
  const Decision back = corrected({.expected_seconds = 4, .plain_seconds = 4}, running,
                                  {.seconds = 2.5, .is_slower = true});
  EXPECT_FALSE(back.compresses());
  EXPECT_EQ(back.expected_seconds, 2);
}

TEST(Decision, WaitingForSlowerWorkersIsNoCommunication) {
  const Profile profile = example_profile("bert-base", 0.3);
  // 438 MB at 10 Gb/s.
  EXPECT_NEAR(exposed_communication(profile, example_network(2, 10), 5), 0.35, 0.05);
  EXPECT_EQ(exposed_communication(profile, example_network(2, 10), 0.1), 0.1);
}

TEST(Decision, TimeSpentWaitingForTheNetworkIsNoOtherTime) {
  const Profile profile = example_profile("bert-base", 0.3);
  const Network network = example_network(2, 10);
  const double predicted = decide(profile, network, {}, 0).plain_seconds;
  const double seconds = predicted + 1;
  EXPECT_DOUBLE_EQ(other_seconds(profile, network, {.seconds = seconds}), 1);
  // All that is not computed was waited for.
  const double waited = seconds - profile.compute_seconds();
  EXPECT_NEAR(other_seconds(profile, network, {.seconds = seconds, .exposed_seconds = waited}), 0,
              1e-12);
  EXPECT_EQ(other_seconds(profile, network, {.seconds = predicted / 2}), 0);
}

TEST(Decision, SurvivesItsFile) {
  const Decision decision{.methods = {{"a.weight", Method::acpsgd}, {"b", Method::half}},
                          .expected_seconds = 0.25,
                          .plain_seconds = 1.5};
  const Decision read = decision_from_json(to_json(decision));
  EXPECT_EQ(read.methods, decision.methods);
  EXPECT_EQ(read.expected_seconds, 0.25);
  EXPECT_EQ(read.plain_seconds, 1.5);
  EXPECT_THROW(decision_from_json(nlohmann::json(3)), std::invalid_argument);
  nlohmann::json damaged = to_json(decision);
  damaged["methods"]["b"] = "nothing";
  EXPECT_THROW(decision_from_json(damaged), std::invalid_argument);
}

TEST(Decision, IsTold) {
  Profile profile;
  profile.parameters = {{"a", {3, 10}}, {"b", {10}}};
  const Decision decision{
      .methods = {{"a", Method::topk}}, .expected_seconds = 0.25, .plain_seconds = 1.5};
  EXPECT_EQ(describe(decision, profile),
            "auto: allreduce for 25 % of the gradient, topk for 75 % of the gradient; a step is "
            "expected to take 250 ms, uncompressed 1.5 s");
}

TEST(UsualSeconds, LeavesOutWhatIsNoStep) {
  // Four steps, then an evaluation, and so on: of nine intervals three have one in them.
  const std::vector<double> steps = {30, 1.0, 1.1, 1.3, 30, 1.2, 1.0, 1.1, 30};
  EXPECT_DOUBLE_EQ(usual_seconds(steps), 1.1);
  EXPECT_DOUBLE_EQ(usual_seconds({2.0, 3.0}), 2.5);
  // A link that has become slow makes all of them long, or most.
  EXPECT_DOUBLE_EQ(usual_seconds({9.0, 10.0, 11.0}), 10);
  EXPECT_DOUBLE_EQ(usual_seconds({1.0, 1.0, 9.0, 10.0, 11.0}), 9);
}

}  // namespace
}  // namespace gradwire::planner
