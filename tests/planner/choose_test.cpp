#include "planner/choose.h"

#include <gtest/gtest.h>

#include "example_profile.h"

namespace gradwire::planner {
namespace {

std::vector<MethodChoice> all_methods() {
  std::vector<MethodChoice> choices;
  for (const Method method : kAllMethods) choices.push_back({.method = method, .rank = 32});
  return choices;
}

TEST(Choice, IsAllReduceWhereTheLinkHidesIt) {
  const Profile profile = example_profile("resnet-50", 0.3);
  const Network network = example_network(16, 400);
  for (const MethodChoice& choice : choose_for_all(profile, network, all_methods()).assignment) {
    EXPECT_EQ(choice.method, Method::allreduce);
  }
}

TEST(Choice, CompressesWhereTheLinkIsSlow) {
  const Profile profile = example_profile("bert-base", 0.1);
  const Network network = example_network(32, 1);
  EXPECT_NE(choose_for_all(profile, network, all_methods()).assignment.front().method,
            Method::allreduce);
}

TEST(BreakEven, IsWhereTheIterationsTakeTheSameTime) {
  const Profile profile = example_profile("bert-base", 0.2);
  const MethodChoice choice{.method = Method::acpsgd, .rank = 32};
  const BreakEven found = break_even(profile, example_network(32, 1), choice);
  ASSERT_EQ(found.helps, Helps::below);
  Network network = example_network(32, 1);
  network.between_nodes.bandwidth = found.bandwidth;
  EXPECT_NEAR(simulate(profile, network, same_for_all(profile, choice)).seconds,
              simulate(profile, network, same_for_all(profile, {})).seconds, 1e-6);
}

TEST(BreakEven, SaysAlwaysAndNever) {
  Profile profile = example_profile("bert-base", 0.2);
  const Network network = example_network(1024, 1, 1e-3);
  // A thousand workers' signs are thirty-two times the gradient.
  EXPECT_EQ(break_even(profile, network, {.method = Method::sign}).helps, Helps::never);
  EXPECT_EQ(break_even(profile, network, {.method = Method::allreduce}).helps, Helps::never);
  profile.rates[index_of(Method::allreduce)].encode = 1;
  EXPECT_EQ(break_even(profile, network, {.method = Method::acpsgd}).helps, Helps::always);
}

}  // namespace
}  // namespace gradwire::planner
