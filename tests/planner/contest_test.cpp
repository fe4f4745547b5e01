#include "planner/contest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "example_profile.h"

namespace gradwire::planner {
namespace {

Decision predicted(Method method, double seconds, double loss) {
  return {
      .methods = {{"w", method}}, .expected_seconds = seconds, .plain_seconds = 9, .loss = loss};
}

const Decision kPlain{.expected_seconds = 2, .plain_seconds = 2};

TEST(Contest, IsWonByTheClockAndNotByThePrediction) {
  Contest contest(kPlain, {predicted(Method::acpsgd, 1.0, 3), predicted(Method::sign, 1.1, 6),
                           predicted(Method::topk, 1.2, 4)});
  for (const double seconds : {1.5, 1.2, 1.4}) {
    EXPECT_FALSE(contest.is_over());
    contest.take_turn(seconds);
  }
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(contest.running().methods.at("w"), Method::sign);
  EXPECT_EQ(contest.running().expected_seconds, 1.2);
}

TEST(Contest, CloseOnesRunAgainInTheOppositeOrder) {
  // The machine is slow while acpsgd runs for the first time.
  Contest contest(kPlain, {predicted(Method::acpsgd, 1.0, 3), predicted(Method::sign, 1.1, 6),
                           predicted(Method::topk, 1.2, 4)});
  for (const double seconds : {1.09, 1.0, 1.2}) contest.take_turn(seconds);
  ASSERT_FALSE(contest.is_over());
  EXPECT_EQ(contest.running().methods.at("w"), Method::sign);
  contest.take_turn(1.05);
  EXPECT_EQ(contest.running().methods.at("w"), Method::acpsgd);
  contest.take_turn(0.95);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(contest.running().methods.at("w"), Method::acpsgd);
  EXPECT_EQ(contest.running().expected_seconds, 0.95);
  EXPECT_EQ(contest.contenders()[2].expected_seconds, 1.0);  // the better of sign's two
}

TEST(Contest, WhatRanBeforeRunsAgainIfItIsClose) {
  Contest contest(kPlain, {predicted(Method::acpsgd, 1.0, 3)});
  contest.take_turn(1.9);
  EXPECT_EQ(contest.running().methods.at("w"), Method::acpsgd);
  contest.take_turn(1.95);
  EXPECT_FALSE(contest.running().compresses());
  EXPECT_FALSE(contest.is_over());
  contest.take_turn(1.8);
  ASSERT_TRUE(contest.is_over());
  EXPECT_FALSE(contest.running().compresses());
  for (const Decision& contender : contest.contenders()) EXPECT_EQ(contender.plain_seconds, 1.8);
}

TEST(Contest, PlainStepsCountAsTheyAreNow) {
  // They were DDP's own; since something was compressed they have a hook and take longer.
  Contest contest(kPlain, {predicted(Method::acpsgd, 1.0, 3)});
  for (const double seconds : {2.05, 2.05, 2.2}) contest.take_turn(seconds);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(contest.running().methods.at("w"), Method::acpsgd);
  EXPECT_EQ(judge(contest.running(), 2.1), Verdict::as_expected);
}

TEST(Contest, WhoeverCouldNotBeTimedHasItsTurnAgain) {
  Contest contest(kPlain, {predicted(Method::acpsgd, 0.1, 3), predicted(Method::sign, 1.1, 6)});
  contest.take_turn(std::nullopt);
  EXPECT_EQ(contest.running().methods.at("w"), Method::sign);
  contest.take_turn(1.0);
  EXPECT_EQ(contest.running().methods.at("w"), Method::acpsgd);
  contest.take_turn(1.09);
  // The second time it has been timed before.
  EXPECT_EQ(contest.running().methods.at("w"), Method::sign);
  contest.take_turn(std::nullopt);
  contest.take_turn(1.08);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(contest.running().methods.at("w"), Method::sign);
}

TEST(Contest, OfEquallyFastOnesTheLeastLossyWins) {
  Contest contest(kPlain, {predicted(Method::sign, 1.0, 6), predicted(Method::acpsgd, 1.0, 3),
                           predicted(Method::half, 1.0, 1)});
  for (const double seconds : {1.0, 1.01, 1.03, 1.03, 1.01, 1.0}) contest.take_turn(seconds);
  EXPECT_EQ(contest.running().methods.at("w"), Method::acpsgd);
}

TEST(Contest, WhatRanBeforeStaysUnlessItIsBeaten) {
  Contest in_vain(kPlain, {predicted(Method::acpsgd, 1.0, 3), predicted(Method::sign, 1.1, 6)});
  for (const double seconds : {2.5, 1.97, 1.97, 2.0}) in_vain.take_turn(seconds);
  EXPECT_FALSE(in_vain.running().compresses());
  EXPECT_EQ(in_vain.running().expected_seconds, 2);

  // It was thought to be slower than plain steps, but those have become slower still.
  Contest contest(predicted(Method::sign, 2.5, 6), {kPlain});
  EXPECT_FALSE(contest.running().compresses());
  contest.take_turn(4);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(contest.running().methods.at("w"), Method::sign);
  EXPECT_EQ(judge(contest.running(), 2.5), Verdict::as_expected);
}

TEST(Contest, OneAloneHasWon) {
  const Contest contest(predicted(Method::half, 1.0, 1));
  EXPECT_TRUE(contest.is_over());
  EXPECT_EQ(contest.running().methods.at("w"), Method::half);
}

TEST(Contest, SurvivesItsFileInTheMiddle) {
  Contest contest({.expected_seconds = 5, .plain_seconds = 5},
                  {predicted(Method::acpsgd, 1.0, 3), predicted(Method::sign, 1.1, 6)});
  contest.take_turn(2);
  Contest read = contest_from_json(to_json(contest));
  EXPECT_FALSE(read.is_over());
  EXPECT_EQ(read.running().methods.at("w"), Method::sign);
  read.take_turn(3);
  EXPECT_EQ(read.running().methods.at("w"), Method::acpsgd);
  EXPECT_EQ(read.running().expected_seconds, 2);

  Contest final(kPlain, {predicted(Method::acpsgd, 1.0, 3)});
  final.take_turn(1.9);
  Contest again = contest_from_json(to_json(final));
  again.take_turn(2.5);  // it has had a better one
  again.take_turn(2);
  ASSERT_TRUE(again.is_over());
  EXPECT_EQ(again.running().expected_seconds, 1.9);

  nlohmann::json damaged = to_json(contest);
  for (const std::vector<int>& waiting : std::vector<std::vector<int>>{{3}, {-1}, {1, 1}, {}}) {
    damaged["waiting"] = waiting;
    EXPECT_THROW(contest_from_json(damaged), std::invalid_argument) << damaged;
  }
  damaged = to_json(contest);
  damaged["round"] = 3;
  EXPECT_THROW(contest_from_json(damaged), std::invalid_argument);
  damaged = to_json(contest);
  damaged["contenders"].clear();
  EXPECT_THROW(contest_from_json(damaged), std::invalid_argument);
  EXPECT_THROW(contest_from_json(nlohmann::json("auto")), std::invalid_argument);
}

TEST(Rivals, AreAlmostAsFastAsTheBestAndOthers) {
  const std::vector<MethodChoice> candidates = {
      {.method = Method::half}, {.method = Method::acpsgd}, {.method = Method::powersgd}};
  const Profile profile = example_profile("bert-base", 0.3);
  const Network network = example_network(2, 1);
  const Decision best = decide(profile, network, candidates, 0.05);
  for (const Decision& rival : rivals(best, profile, network, candidates, 0.05)) {
    EXPECT_NE(rival.methods, best.methods);
    EXPECT_LE(rival.expected_seconds, 1.4 * best.expected_seconds);
    EXPECT_EQ(rival.plain_seconds, best.plain_seconds);
    EXPECT_GT(rival.loss, 0);
  }
  // Half sends a hundred times as much here.
  const std::vector<MethodChoice> half = {{.method = Method::half}};
  EXPECT_TRUE(rivals(best, profile, network, half, 0.05).empty());
  // What is faster still comes first.
  const Decision slow = decide(profile, network, half, 0.05);
  const std::vector<Decision> faster = rivals(slow, profile, network, candidates, 0.05);
  ASSERT_GE(faster.size(), 2);
  EXPECT_LE(faster[0].expected_seconds, faster[1].expected_seconds);
  EXPECT_LT(faster[1].expected_seconds, slow.expected_seconds);
}

TEST(Rivals, AreAllThatMayWin) {
  std::vector<MethodChoice> candidates;
  for (const Method method : {Method::half, Method::powersgd, Method::acpsgd, Method::topk,
                              Method::adacomp, Method::sign}) {
    candidates.push_back({.method = method});
  }
  const Profile profile = example_profile("resnet-50", 1.4);
  const Network network = example_network(2, 1);
  const Decision best = decide(profile, network, candidates, 0);
  size_t promising = 0;
  for (const MethodChoice& candidate : candidates) {
    const double seconds = simulate(profile, network, same_for_all(profile, candidate)).seconds;
    promising += seconds <= 1.4 * best.expected_seconds ? 1 : 0;
  }
  EXPECT_GE(promising, 5);
  EXPECT_EQ(rivals(best, profile, network, candidates, 0).size(), promising);
}

}  // namespace
}  // namespace gradwire::planner
