#include "auto/challengers.h"

#include <gtest/gtest.h>

#include "../planner/example_profile.h"
#include "methods/registry.h"
#include "planner/simulate.h"

namespace gradwire {
namespace {

using planner::MethodChoice;

MethodChoice choice(const std::string& name) { return {&find_method(name).models.front()}; }

// All methods that compress.
std::vector<MethodChoice> candidates() {
  std::vector<MethodChoice> choices;
  for (const MethodEntry& entry : registry()) {
    if (entry.compresses()) choices.push_back({&entry.models.front()});
  }
  return choices;
}

double simulated(const Situation& situation, const MethodChoice& choice) {
  return simulate(situation.profile, situation.network, choice).seconds;
}

// Plain steps take what the model says, plus what it does not know of.
Situation plain_steps(const char* model, double compute, double gbit, double other = 0) {
  Situation situation{.profile = planner::example_profile(model, compute, method_models()),
                      .network = planner::example_network(2, gbit),
                      .other_seconds = other};
  situation.step_seconds = situation.most_to_save = simulated(situation, {}) + other;
  return situation;
}

TEST(Challengers, ExistOnlyOnASlowLink) {
  const Situation fast = plain_steps("bert-base", 0.3, 400, 0.05);
  EXPECT_TRUE(challengers(fast, {}, candidates()).empty());
  const Situation slow = plain_steps("bert-base", 0.3, 1, 0.05);
  const std::vector<Decision> found = challengers(slow, {}, candidates());
  ASSERT_FALSE(found.empty());
  for (const Decision& decision : found) {
    EXPECT_TRUE(decision.compresses());
    EXPECT_LE(decision.expected_seconds, 0.9 * slow.step_seconds);
    EXPECT_LE(decision.expected_seconds, 1.4 * found.front().expected_seconds);
    EXPECT_GE(decision.expected_seconds, found.front().expected_seconds);
    EXPECT_EQ(decision.plain_seconds, slow.step_seconds);
    EXPECT_GT(decision.loss, 0);
  }
  // Half sends a hundred times as much as the best.
  for (const Decision& decision : found) EXPECT_NE(decision.methods.at(kWholeModel), "half");
  // It is the best where it is the only one.
  const std::vector<MethodChoice> half = {choice("half")};
  EXPECT_EQ(challengers(slow, {}, half).size(), 1);
}

TEST(Challengers, AreAllThatMayWin) {
  const Situation situation = plain_steps("resnet-50", 1.4, 0.5);
  double best = situation.step_seconds;
  for (const MethodChoice& method : candidates())
    best = std::min(best, simulated(situation, method));
  size_t promising = 0;
  for (const MethodChoice& method : candidates()) {
    const double seconds = simulated(situation, method);
    promising += seconds <= std::min(1.4 * best, 0.9 * situation.step_seconds) ? 1 : 0;
  }
  EXPECT_GE(promising, 5);
  EXPECT_EQ(challengers(situation, {}, candidates()).size(), promising);
}

TEST(Challengers, CannotSaveMoreThanIsExposed) {
  Situation situation = plain_steps("bert-base", 0.3, 1);
  EXPECT_FALSE(challengers(situation, {}, candidates()).empty());
  // Communication is hidden behind backward, all but a little.
  situation.most_to_save = 0.05 * situation.step_seconds;
  EXPECT_TRUE(challengers(situation, {}, candidates()).empty());
}

TEST(Challengers, OfACompressedRunIncludePlainStepsAsSoonAsTheyAreAsFast) {
  Situation situation = plain_steps("bert-base", 0.3, 400);
  const Decision running{.methods = {{kWholeModel, "acpsgd"}},
                         .loss = choice("acpsgd").model->loss};
  const auto has_plain = [&] {
    const std::vector<Decision> found = challengers(situation, running, candidates());
    return std::ranges::any_of(found, [](const Decision& d) { return !d.compresses(); });
  };
  EXPECT_TRUE(has_plain());
  situation.step_seconds *= 0.95;
  EXPECT_FALSE(has_plain());
  for (const Decision& decision : challengers(situation, running, candidates())) {
    EXPECT_NE(decision.methods, running.methods);
  }
}

TEST(ExposedCommunication, IsNoWaitingForSlowerWorkers) {
  const Situation situation = plain_steps("bert-base", 0.3, 10);
  // 438 MB at 10 Gb/s.
  EXPECT_NEAR(exposed_communication(situation, 5), 0.35, 0.05);
  EXPECT_EQ(exposed_communication(situation, 0.1), 0.1);
}

TEST(UnexplainedSeconds, AreNoWaitingForTheNetwork) {
  Situation situation = plain_steps("bert-base", 0.3, 10);
  const double predicted = situation.step_seconds;
  situation.step_seconds += 1;
  EXPECT_DOUBLE_EQ(unexplained_seconds(situation, 0), 1);
  // All that is not computed was waited for.
  const double waited = situation.step_seconds - situation.profile.compute_seconds();
  EXPECT_NEAR(unexplained_seconds(situation, waited), 0, 1e-12);
  situation.step_seconds = predicted / 2;
  EXPECT_EQ(unexplained_seconds(situation, 0), 0);
}

}  // namespace
}  // namespace gradwire
