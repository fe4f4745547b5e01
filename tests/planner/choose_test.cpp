#include "planner/choose.h"

#include <gtest/gtest.h>

#include "example_methods.h"
#include "example_profile.h"

namespace gradwire::planner {
namespace {

const std::vector<MethodChoice> kChoices = all_choices({{"rank", int64_t{32}}});

TEST(Choice, IsAllReduceWhereTheLinkHidesIt) {
  const Profile profile = example_profile("resnet-50", 0.3, kModels);
  const Network network = example_network(16, 400);
  EXPECT_TRUE(choose(profile, network, kChoices).model->is_plain());
}

TEST(Choice, CompressesWhereTheLinkIsSlow) {
  const Profile profile = example_profile("bert-base", 0.1, kModels);
  const Network network = example_network(32, 1);
  EXPECT_FALSE(choose(profile, network, kChoices).model->is_plain());
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
