#include "planner/choose.h"

#include <gtest/gtest.h>

#include "example_methods.h"
#include "example_profile.h"

namespace gradwire::planner {
namespace {

// The loss of the best.
double best(const std::vector<Timed>& methods) { return methods[best_of(methods)].loss; }

TEST(Best, MustBeWorthItsLoss) {
  const Timed plain{0, 10};
  EXPECT_EQ(best({plain, {1, 9.1}}), 0);
  EXPECT_EQ(best({plain, {1, 9.0}}), 1);
  EXPECT_EQ(best({plain, {3, 7.6}}), 0);
  EXPECT_EQ(best({plain, {3, 7.5}}), 3);
  // A delayed method has to be a quarter shorter than the best rounded one, chosen or not.
  EXPECT_EQ(best({plain, {1, 8}, {3, 6.1}}), 1);
  EXPECT_EQ(best({plain, {1, 8}, {3, 6.0}}), 3);
  EXPECT_EQ(best({plain, {1, 9.5}, {3, 7.4}}), 0);
}

TEST(Best, IsTheLeastLossyOfItsClassWithin2PercentOfTheFastest) {
  EXPECT_EQ(best({{0, 10}, {1.4, 5.0}, {1.2, 5.1}, {1, 5.2}}), 1.2);
  EXPECT_EQ(best({{6, 3}}), 6);
}

TEST(BreakEven, IsWhereTheIterationsTakeTheSameTime) {
  const Profile profile = example_profile("bert-base", 0.2, kModels);
  const MethodChoice choice{&kFactored, {{"rank", int64_t{32}}}};
  const BreakEven found = break_even(profile, example_network(32, 1), choice);
  ASSERT_EQ(found.helps, Helps::below);
  Network network = example_network(32, 1);
  network.between_nodes.bandwidth = found.bandwidth;
  EXPECT_NEAR(simulate(profile, network, choice).seconds, simulate(profile, network, {}).seconds,
              1e-6);
}

TEST(BreakEven, SaysAlwaysAndNever) {
  Profile profile = example_profile("bert-base", 0.2, kModels);
  const Network network = example_network(1024, 1, 1e-3);
  // What a thousand workers send is thirty-two times the gradient.
  EXPECT_EQ(break_even(profile, network, {&kGathered}).helps, Helps::never);
  EXPECT_EQ(break_even(profile, network, {}).helps, Helps::never);
  profile.rates[plain_all_reduce().name].encode = 1;
  EXPECT_EQ(break_even(profile, network, {&kFactored}).helps, Helps::always);
}

}  // namespace
}  // namespace gradwire::planner
