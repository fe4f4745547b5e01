#include "auto/challengers.h"

#include <gtest/gtest.h>

#include "../planner/example_profile.h"
#include "methods/registry.h"
#include "planner/simulate.h"

namespace gradwire {
namespace {

using planner::MethodChoice;

MethodChoice choice(const std::string& name) { return {&find_method(name).models.front()}; }

// All models that compress.
std::vector<MethodChoice> candidates() {
  std::vector<MethodChoice> choices;
  for (const planner::MethodModel* model : method_models()) {
    if (!model->is_plain()) choices.push_back({model});
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

std::vector<std::string> names(const std::vector<Decision>& decisions) {
  std::vector<std::string> names;
  for (const Decision& decision : decisions) {
    names.push_back(decision.compresses() ? decision.methods.at(kWholeModel) : "plain");
  }
  return names;
}

TEST(Challengers, ExistOnlyOnASlowLink) {
  const Situation fast = plain_steps("bert-base", 0.3, 400, 0.05);
  EXPECT_TRUE(challengers(fast, {}, candidates()).empty());
  const Situation slow = plain_steps("bert-base", 0.3, 1, 0.05);
  const std::vector<Decision> found = challengers(slow, {}, candidates());
  ASSERT_FALSE(found.empty());
  for (const Decision& decision : found) {
    EXPECT_TRUE(decision.compresses());
    EXPECT_LE(decision.expected_seconds, required_part(decision.loss_class()) * slow.step_seconds);
    EXPECT_EQ(decision.plain_seconds, slow.step_seconds);
    EXPECT_GE(decision.loss, found.front().loss);  // the least lossy come first
  }
}

// With predictions that come true, what is chosen in the end was tried.
TEST(Challengers, HaveTheBestAmongThem) {
  for (const char* model : {"resnet-50", "bert-base"}) {
    for (const double gbit : {0.1, 0.5, 1.0, 5.0, 10.0, 50.0}) {
      SCOPED_TRACE(std::string(model) + " at " + std::to_string(gbit));
      const Situation situation = plain_steps(model, 0.3, gbit);
      std::vector<Decision> all = {{.expected_seconds = situation.step_seconds}};
      for (const MethodChoice& candidate : candidates()) {
        all.push_back({.methods = {{kWholeModel, candidate.model->name}},
                       .expected_seconds = simulated(situation, candidate),
                       .loss = candidate.model->loss});
      }
      const Decision& best = best_of(all);
      std::vector<Decision> tried = challengers(situation, {}, candidates());
      EXPECT_LE(tried.size(), candidates().size());
      tried.push_back(all.front());
      EXPECT_EQ(best_of(tried).methods, best.methods);
    }
  }
}

TEST(Challengers, CannotSaveMoreThanIsExposed) {
  Situation situation = plain_steps("bert-base", 0.3, 1);
  EXPECT_FALSE(challengers(situation, {}, candidates()).empty());
  // Communication is hidden behind backward, all but a little.
  situation.most_to_save = 0.05 * situation.step_seconds;
  EXPECT_TRUE(challengers(situation, {}, candidates()).empty());
}

TEST(Challengers, OfACompressedRunIncludePlainStepsIfItIsNotWorthItsLoss) {
  Situation situation = plain_steps("bert-base", 0.3, 400);
  const Decision running{.methods = {{kWholeModel, "acpsgd"}},
                         .loss = choice("acpsgd").model->loss};
  situation.step_seconds *= 0.8;
  EXPECT_EQ(names(challengers(situation, running, candidates())),
            std::vector<std::string>{"plain"});
  situation.step_seconds *= 0.9;
  EXPECT_TRUE(challengers(situation, running, candidates()).empty());
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
