#include <gtest/gtest.h>

#include "gradients.h"
#include "methods/device_code.h"
#include "simulated_world.h"
#include "threads.h"

namespace gradwire {
namespace {

const OptionMap kVote = {{"mode", std::string("vote")}};

// What ALGORITHMS says, for one parameter.
at::Tensor majority_of(const Gradients& gradients, size_t parameter, double scale) {
  at::Tensor balance = at::zeros(gradients[0][parameter].sizes(), at::kInt);
  int voters = 0;
  for (const auto& worker : gradients) {
    if (!at::isfinite(worker[parameter]).all().item<bool>()) {
      return at::full(balance.sizes(), kNan);
    }
    if (!worker[parameter].any().item<bool>()) continue;
    balance += 2 * (worker[parameter] >= 0).to(at::kInt) - 1;
    ++voters;
  }
  if (voters == 0) return at::zeros(balance.sizes());
  return (2 * (balance >= 0).to(at::kFloat) - 1) * scale;
}

void expect_majority(const Gradients& results, const Gradients& gradients, double scale = 1) {
  expect_alike(results);
  for (size_t i = 0; i < results[0].size(); ++i) {
    const at::Tensor expected = majority_of(gradients, i, scale).to(results[0][i].scalar_type());
    EXPECT_TRUE(results[0][i].allclose(expected, 0, 0, /*equal_nan=*/true)) << "parameter " << i;
  }
}

class SignVote : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    if (std::get<1>(GetParam())) forced_.emplace(aten_code());
  }
  int workers() const { return std::get<0>(GetParam()); }

 private:
  std::optional<ForceCode> forced_;
};
INSTANTIATE_TEST_SUITE_P(Workers, SignVote,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7), testing::Bool()),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_by_aten" : "_by_kernel");
                         });

TEST_P(SignVote, TakesTheMajority) {
  SimulatedWorld world("sign", kVote, workers(), kShapes);
  for (int step = 0; step < 10; ++step) {
    const Gradients gradients = random_gradients(workers(), step);
    expect_majority(world.step(gradients), gradients);
  }
}

// Fewer bytes than workers: most slices are empty or padding.
TEST_P(SignVote, CountsInSlicesOfOneByte) {
  const Shapes shapes = {{}, {3}, {9}};
  SimulatedWorld world("sign", kVote, workers(), shapes);
  for (int step = 0; step < 10; ++step) {
    const Gradients gradients = random_gradients(workers(), step, shapes);
    expect_majority(world.step(gradients), gradients);
  }
}

TEST_P(SignVote, LeavesOutWhoAbstains) {
  SimulatedWorld world("sign", kVote, workers(), kShapes);
  for (int step = 0; step < 3; ++step) {
    Gradients gradients = random_gradients(workers(), step);
    gradients[0][3].zero_();
    gradients[workers() - 1][5].fill_(-0.0F);
    for (auto& worker : gradients) worker[4].zero_();
    const Gradients results = world.step(gradients);
    expect_majority(results, gradients);
    EXPECT_TRUE(same_bits(results[0][4], at::zeros({32, 4, 3, 3})));
  }
}

TEST_P(SignVote, IsSpoiltByWhatIsNotFinite) {
  SimulatedWorld world("sign", kVote, workers(), kShapes);
  for (const float bad : {kInfinity, -kInfinity, kNan, 1.0F}) {
    Gradients gradients = random_gradients(workers(), 1);
    gradients[workers() - 1][5].view(-1)[149999] = bad;
    gradients[0][2][6] = bad;
    gradients[0][3].zero_();
    expect_majority(world.step(gradients), gradients);
  }
}

TEST_P(SignVote, TakesSpecialValues) {
  SimulatedWorld world("sign", kVote, workers(), kSpecialShapes);
  const Gradients gradients = special_gradients(workers());
  expect_majority(world.step(gradients), gradients);
}

TEST_P(SignVote, Scales) {
  OptionMap options = kVote;
  options["vote_scale"] = 0.125;
  SimulatedWorld world("sign", options, workers(), kShapes);
  const Gradients gradients = random_gradients(workers(), 0);
  expect_majority(world.step(gradients), gradients, 0.125);
}

TEST_P(SignVote, TakesHalvesAndAnyStrides) {
  SimulatedWorld world("sign", kVote, workers(), kUnusualShapes);
  const Gradients gradients = unusual_gradients(workers());
  const Gradients results = world.step(gradients);
  EXPECT_EQ(results[0][0].scalar_type(), at::kBFloat16);
  expect_majority(results, gradients);
}

TEST_P(SignVote, RemembersNothing) {
  SimulatedWorld world("sign", kVote, workers(), kShapes);
  world.step(random_gradients(workers(), 0));
  EXPECT_FALSE(world.state(0, 3).residual().defined());
  EXPECT_TRUE(world.state(0, 3).tensors().empty());
}

TEST(SignVotePayload, IsTheSameByEitherPath) {
  SimulatedWorld by_kernel("sign", kVote, 3, kShapes);
  const ForceCode forced(aten_code());
  SimulatedWorld by_aten("sign", kVote, 3, kShapes);
  Gradients gradients = random_gradients(3, 0);
  gradients[1][3].zero_();
  by_kernel.step(gradients);
  by_aten.step(gradients);
  ASSERT_EQ(by_kernel.sent().size(), 6U);
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(by_kernel.sent()[i].equal(by_aten.sent()[i])) << i;
}

// The cost of a worker grows with the ballots alone, a byte per parameter and worker.
TEST(SignVotePayload, HasTwoBitsPerElementWhateverTheNumberOfWorkers) {
  const Shapes shapes = {{1000}, {64, 64}};
  const int64_t stream = 125 + 512;
  for (const int workers : {1, 2, 5, 16}) {
    SimulatedWorld world("sign", kVote, workers, shapes);
    world.step(random_gradients(workers, 0, shapes));
    const int64_t slice = (stream + workers - 1) / workers;
    for (int worker = 0; worker < workers; ++worker) {
      int64_t counted = 0;
      for (const int64_t bytes : world.payload_bytes()[worker]) counted += bytes;
      EXPECT_EQ(counted, workers * (2 + slice));
      EXPECT_EQ(world.sent()[worker].numel(), counted);
      EXPECT_EQ(world.sent()[workers + worker].numel(), slice);
    }
  }
}

TEST(SignVotePayload, DoesNotDependOnTheNumberOfThreads) {
  expect_independent_of_threads("sign", kVote);
}

TEST(SignOptions, ErrorFeedbackGoesWithModeEf) {
  const MethodEntry& sign = find_method("sign");
  for (const bool value : {true, false}) {
    OptionMap options = kVote;
    options["error_feedback"] = value;
    EXPECT_THROW(complete_options(sign, options), std::invalid_argument);
    options["mode"] = std::string("ef");
    EXPECT_EQ(std::get<bool>(complete_options(sign, options).at("error_feedback")), value);
    options.erase("mode");
    EXPECT_EQ(std::get<bool>(complete_options(sign, options).at("error_feedback")), value);
  }
  EXPECT_THROW(complete_options(sign, {{"vote_scale", 0.0}}), std::invalid_argument);
  EXPECT_THROW(complete_options(sign, {{"vote_scale", -1.0}}), std::invalid_argument);
  EXPECT_THROW(complete_options(sign, {{"mode", std::string("both")}}), std::invalid_argument);
  EXPECT_EQ(std::get<std::string>(complete_options(sign, {}).at("mode")), "ef");
}

}  // namespace
}  // namespace gradwire
