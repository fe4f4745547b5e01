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

double fastest_of_all(const Profile& profile, const Network& network) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const MethodChoice& choice : all_methods()) {
    fastest = std::min(fastest, simulate(profile, network, same_for_all(profile, choice)).seconds);
  }
  return fastest;
}

double loss_of(const Assignment& assignment) {
  double loss = 0;
  for (const MethodChoice& choice : assignment) loss += static_cast<double>(choice.method);
  return loss;
}

TEST(Choice, IsAllReduceWhereTheLinkHidesIt) {
  const Profile profile = example_profile("resnet-50", 0.3);
  const Network network = example_network(16, 400);
  for (const Choice& choice : {choose_for_all(profile, network, all_methods()),
                               choose_per_bucket(profile, network, all_methods())}) {
    for (const MethodChoice& of_bucket : choice.assignment) {
      EXPECT_EQ(of_bucket.method, Method::allreduce);
    }
  }
}

TEST(Choice, CompressesWhereTheLinkIsSlow) {
  const Profile profile = example_profile("bert-base", 0.1);
  const Network network = example_network(32, 1);
  EXPECT_NE(choose_for_all(profile, network, all_methods()).assignment.front().method,
            Method::allreduce);
}

TEST(Choice, PerBucketIsAsFastAsOneForAllAndNoMoreLossy) {
  for (const char* model : {"resnet-50", "bert-base"}) {
    const Profile profile = example_profile(model, 0.15);
    for (const double gbit : {0.5, 5.0, 20.0, 50.0}) {
      const Network network = example_network(16, gbit);
      const Choice for_all = choose_for_all(profile, network, all_methods());
      const Choice per_bucket = choose_per_bucket(profile, network, all_methods());
      EXPECT_LE(per_bucket.prediction.seconds,
                1.02 * fastest_of_all(profile, network) * (1 + 1e-9));
      EXPECT_EQ(simulate(profile, network, per_bucket.assignment).seconds,
                per_bucket.prediction.seconds);
      if (per_bucket.prediction.seconds >= for_all.prediction.seconds) {
        EXPECT_LE(loss_of(per_bucket.assignment), loss_of(for_all.assignment))
            << model << " at " << gbit;
      }
    }
  }
}

TEST(Choice, LeavesTheBucketsThatHideUncompressed) {
  // Two equal buckets: the first has all of backward to hide in, the second nothing.
  Profile profile = example_profile("bert-base", 1);
  profile.parameters = {{"late", {4096, 4096}}, {"early", {4096, 4096}}};
  profile.buckets = {{{1}, 0.01}, {{0}, profile.backward_seconds}};
  const Choice choice = choose_per_bucket(profile, example_network(2, 2), all_methods());
  EXPECT_EQ(choice.assignment[0].method, Method::allreduce);
  EXPECT_NE(choice.assignment[1].method, Method::allreduce);
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
