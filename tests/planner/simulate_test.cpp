#include "planner/simulate.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "example_methods.h"

namespace gradwire::planner {
namespace {

double seconds_of(const Profile& profile, const Network& network, const MethodModel& model) {
  return simulate(profile, network, {&model}).seconds;
}

// Two buckets of 4 MB, ready after 1 and 2 of 2 s of backward, between two workers that take 1 s
// per MB they send: 4 s per all-reduce.
Profile two_buckets() {
  Profile profile;
  profile.forward_seconds = 1;
  profile.backward_seconds = 2;
  profile.parameters = {{"first", {1000, 1000}}, {"second", {1000, 1000}}};
  profile.buckets = {{{1}, 1}, {{0}, 2}};
  return profile;
}

Network slow_link() {
  return {.workers = 2,
          .between_nodes = {.latency = 0, .bandwidth = 1e6},
          .all_reduce = AllReduce::ring};
}

TEST(Simulation, OfTwoBucketsByHand) {
  const Profile profile = two_buckets();
  // Forward until 1, first bucket at 2, its all-reduce until 6, the second one's until 10.
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), plain_all_reduce()), 10);
}

TEST(Simulation, OfEncodingWhichDelaysBackwardByHand) {
  Profile profile = two_buckets();
  profile.rates[plain_all_reduce().name] = {.encode = 0.5 / 4e6, .decode = 0.25 / 4e6};
  // First bucket launched at 2.5, done at 6.5; the second launched at 4, done at 10.5. The first
  // is decoded while the second travels.
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), plain_all_reduce()), 10.75);
  // Nothing on the wire: 3 s of compute, two encodings, two decodings.
  EXPECT_DOUBLE_EQ(seconds_of(profile, {.workers = 2}, plain_all_reduce()), 4.5);
}

TEST(Simulation, OfSecondRoundsThatShareTheLinkByHand) {
  Profile profile = two_buckets();
  // 2 MB per bucket, of which 1 MB goes to the other worker, then 1 MB back: 1 s a round.
  // First rounds at 2 to 3 and 3 to 4; the first second round starts at 3 and shares the link with
  // the other first round until 5, when both are done; then the other second round.
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), kSliced), 6);
  // With 2 s of work between the rounds, from 3 to 5 and 5 to 7, nothing is shared.
  profile.rates[kSliced.name] = {.between = 2 / 4e6};
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), kSliced), 8);
}

TEST(Simulation, OfWorkBetweenRoundsThatContendsWithBackwardByHand) {
  Profile profile = two_buckets();
  profile.backward_seconds = 9;
  profile.buckets[1].ready_seconds = 9;
  profile.rates[kSliced.name] = {.between = 2 / 4e6};
  // First round 2 to 3, work between from 3; the second bucket is ready at 10, or at 12 if
  // backward gets half of the processor for 4 s. Its rounds and work take 4 s.
  profile.contention = 0;
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), kSliced), 14);
  profile.contention = 1;
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), kSliced), 16);
}

TEST(Simulation, OfTwoKindsOfStepsIsTheirMean) {
  Profile profile = two_buckets();
  profile.parameters = {{"first", {1000, 3000}}, {"second", {1000, 3000}}};
  // P: 4 * 1000 * 10 bytes, 0.04 s; Q: 0.12 s; after backward the second bucket's is seen.
  const MethodChoice choice{&kFactored, {{"rank", int64_t{10}}}};
  EXPECT_NEAR(simulate(profile, slow_link(), choice).seconds, 3.08, 1e-12);
}

}  // namespace
}  // namespace gradwire::planner
