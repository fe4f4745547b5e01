#include "auto/contest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gradwire {
namespace {

Decision predicted(const char* method, double seconds, double loss) {
  return {.methods = {{kWholeModel, method}},
          .expected_seconds = seconds,
          .plain_seconds = 9,
          .loss = loss};
}

std::string running_in(const Contest& contest) { return contest.running().methods.at(kWholeModel); }

const Decision kPlain{.expected_seconds = 2, .plain_seconds = 2};

TEST(Contest, IsWonByTheClockAndNotByThePrediction) {
  Contest contest(
      kPlain, {predicted("acpsgd", 1.0, 3), predicted("sign", 1.1, 6), predicted("topk", 1.2, 4)});
  for (const double seconds : {1.5, 1.2, 1.4}) {
    EXPECT_FALSE(contest.is_over());
    contest.take_turn(seconds);
  }
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(running_in(contest), "sign");
  EXPECT_EQ(contest.running().expected_seconds, 1.2);
}

TEST(Contest, CloseOnesRunAgainInTheOppositeOrder) {
  // The machine is slow while acpsgd runs for the first time.
  Contest contest(
      kPlain, {predicted("acpsgd", 1.0, 3), predicted("sign", 1.1, 6), predicted("topk", 1.2, 4)});
  for (const double seconds : {1.09, 1.0, 1.2}) contest.take_turn(seconds);
  ASSERT_FALSE(contest.is_over());
  EXPECT_EQ(running_in(contest), "sign");
  contest.take_turn(1.05);
  EXPECT_EQ(running_in(contest), "acpsgd");
  contest.take_turn(0.95);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(running_in(contest), "acpsgd");
  EXPECT_EQ(contest.running().expected_seconds, 0.95);
  EXPECT_EQ(contest.contenders()[2].expected_seconds, 1.0);  // the better of sign's two
}

TEST(Contest, WhatRanBeforeRunsAgainIfItIsClose) {
  Contest contest(kPlain, {predicted("acpsgd", 1.0, 3)});
  contest.take_turn(1.9);
  EXPECT_EQ(running_in(contest), "acpsgd");
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
  Contest contest(kPlain, {predicted("quant", 1.0, 1.2)});
  for (const double seconds : {1.85, 1.85, 2.2}) contest.take_turn(seconds);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(running_in(contest), "quant");
  EXPECT_EQ(contest.running().plain_seconds, 2.2);
}

TEST(Contest, WhoeverCouldNotBeTimedHasItsTurnAgain) {
  Contest contest(kPlain, {predicted("acpsgd", 0.1, 3), predicted("sign", 1.1, 6)});
  contest.take_turn(std::nullopt);
  EXPECT_EQ(running_in(contest), "sign");
  contest.take_turn(1.0);
  EXPECT_EQ(running_in(contest), "acpsgd");
  contest.take_turn(1.09);
  // The second time it has been timed before.
  EXPECT_EQ(running_in(contest), "sign");
  contest.take_turn(std::nullopt);
  contest.take_turn(1.08);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(running_in(contest), "sign");
}

TEST(Contest, OfEquallyFastOnesTheLeastLossyWins) {
  Contest contest(
      kPlain, {predicted("sign", 1.0, 6), predicted("acpsgd", 1.0, 3), predicted("topk", 1.0, 4)});
  for (const double seconds : {1.0, 1.01, 1.03, 1.03, 1.01, 1.0}) contest.take_turn(seconds);
  EXPECT_EQ(running_in(contest), "acpsgd");
}

TEST(Contest, WhatRanBeforeStaysUnlessItIsBeaten) {
  Contest in_vain(kPlain, {predicted("acpsgd", 1.0, 3), predicted("sign", 1.1, 6)});
  for (const double seconds : {2.5, 1.97, 1.97, 2.0}) in_vain.take_turn(seconds);
  EXPECT_FALSE(in_vain.running().compresses());
  EXPECT_EQ(in_vain.running().expected_seconds, 2);

  // It was thought to be slower than plain steps, but those have become slower still.
  Contest contest(predicted("sign", 2.5, 6), {kPlain});
  EXPECT_FALSE(contest.running().compresses());
  contest.take_turn(4);
  ASSERT_TRUE(contest.is_over());
  EXPECT_EQ(running_in(contest), "sign");
  EXPECT_EQ(contest.running().plain_seconds, 4);
}

TEST(Contest, OneAloneHasWon) {
  const Contest contest(predicted("half", 1.0, 1));
  EXPECT_TRUE(contest.is_over());
  EXPECT_EQ(running_in(contest), "half");
}

TEST(Contest, SurvivesItsFileInTheMiddle) {
  Contest contest({.expected_seconds = 5, .plain_seconds = 5},
                  {predicted("acpsgd", 1.0, 3), predicted("sign", 1.1, 6)});
  contest.take_turn(2);
  Contest read = contest_from_json(to_json(contest));
  EXPECT_FALSE(read.is_over());
  EXPECT_EQ(running_in(read), "sign");
  read.take_turn(3);
  EXPECT_EQ(running_in(read), "acpsgd");
  EXPECT_EQ(read.running().expected_seconds, 2);

  Contest final(kPlain, {predicted("quant", 1.0, 1.2)});
  final.take_turn(1.85);
  Contest again = contest_from_json(to_json(final));
  again.take_turn(2.5);  // it has had a better one
  again.take_turn(2.1);
  ASSERT_TRUE(again.is_over());
  EXPECT_EQ(again.running().expected_seconds, 1.85);

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

}  // namespace
}  // namespace gradwire
