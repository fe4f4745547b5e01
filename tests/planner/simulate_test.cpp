#include "planner/simulate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <stdexcept>

#include "example_profile.h"
#include "planner/bucket_cost.h"

namespace gradwire::planner {
namespace {

double seconds_of(const Profile& profile, const Network& network, Method method) {
  const MethodChoice choice{.method = method, .rank = 32};
  return simulate(profile, network, same_for_all(profile, choice)).seconds;
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
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), Method::allreduce), 10);
}

TEST(Simulation, OfEncodingWhichDelaysBackwardByHand) {
  Profile profile = two_buckets();
  profile.rates[index_of(Method::allreduce)] = {.encode = 0.5 / 4e6, .decode = 0.25 / 4e6};
  // First bucket launched at 2.5, done at 6.5; the second launched at 4, done at 10.5. The first
  // is decoded while the second travels.
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), Method::allreduce), 10.75);
  // Nothing on the wire: 3 s of compute, two encodings, two decodings.
  EXPECT_DOUBLE_EQ(seconds_of(profile, {.workers = 2}, Method::allreduce), 4.5);
}

TEST(Simulation, OfSecondRoundsThatShareTheLinkByHand) {
  Profile profile = two_buckets();
  // half: 2 MB per bucket, of which 1 MB goes to the other worker, then 1 MB back: 1 s a round.
  // First rounds at 2 to 3 and 3 to 4; the first second round starts at 3 and shares the link with
  // the other first round until 5, when both are done; then the other second round.
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), Method::half), 6);
  // With 2 s of work between the rounds, from 3 to 5 and 5 to 7, nothing is shared.
  profile.rates[index_of(Method::half)] = {.between = 2 / 4e6};
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), Method::half), 8);
}

TEST(Simulation, OfWorkBetweenRoundsThatContendsWithBackwardByHand) {
  Profile profile = two_buckets();
  profile.backward_seconds = 9;
  profile.buckets[1].ready_seconds = 9;
  profile.rates[index_of(Method::half)] = {.between = 2 / 4e6};
  // First round 2 to 3, work between from 3; the second bucket is ready at 10, or at 12 if
  // backward gets half of the processor for 4 s. Its rounds and work take 4 s.
  profile.contention = 0;
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), Method::half), 14);
  profile.contention = 1;
  EXPECT_DOUBLE_EQ(seconds_of(profile, slow_link(), Method::half), 16);
}

TEST(Simulation, OfAcpsgdIsTheMeanOfItsTwoSteps) {
  Profile profile = two_buckets();
  profile.parameters = {{"first", {1000, 3000}}, {"second", {1000, 3000}}};
  // P: 4 * 1000 * 10 bytes, 0.04 s; Q: 0.12 s; after backward the second bucket's is seen.
  const MethodChoice choice{.method = Method::acpsgd, .rank = 10};
  EXPECT_NEAR(simulate(profile, slow_link(), same_for_all(profile, choice)).seconds, 3.08, 1e-12);
}

TEST(Simulation, WithoutACostOfTheLinkIsComputeAndCoding) {
  for (const std::string& model : model_names()) {
    const Profile profile = example_profile(model.c_str(), 0.2);
    const Network network{.workers = 64};
    EXPECT_NEAR(seconds_of(profile, network, Method::allreduce), 0.2, 1e-9);
    for (const Method method : kAllMethods) {
      Profile uncoded = profile;
      uncoded.rates = {};
      uncoded.flops_per_second = std::numeric_limits<double>::infinity();
      EXPECT_NEAR(seconds_of(uncoded, network, method), 0.2, 1e-9) << name_of(method);
      const MethodChoice choice{.method = method, .rank = 32};
      const Prediction coded = simulate(profile, network, same_for_all(profile, choice));
      EXPECT_LE(coded.seconds, 0.2 + coded.coding_seconds + 1e-9) << name_of(method);
    }
  }
}

TEST(Simulation, IsNeverFasterThanComputeNorThanTheWire) {
  const Profile profile = example_profile("bert-base", 0.1);
  for (const Method method : kAllMethods) {
    for (const double gbit : {0.1, 1.0, 10.0, 100.0}) {
      const MethodChoice choice{.method = method};
      const Prediction prediction =
          simulate(profile, example_network(16, gbit), same_for_all(profile, choice));
      EXPECT_GE(prediction.seconds, profile.compute_seconds()) << name_of(method);
      // Latencies of the two rounds pass in parallel.
      const Prediction no_latency =
          simulate(profile, example_network(16, gbit, 0), same_for_all(profile, choice));
      EXPECT_GE(no_latency.seconds, no_latency.wire_seconds) << name_of(method);
    }
  }
}

TEST(Simulation, IsNeverSlowerWithAFasterLink) {
  const Profile profile = example_profile("bert-base", 0.1);
  for (const Method method : kAllMethods) {
    double slower = std::numeric_limits<double>::infinity();
    for (double gbit = 0.1; gbit < 1000; gbit *= 1.5) {
      const double seconds = seconds_of(profile, example_network(32, gbit), method);
      EXPECT_LE(seconds, slower * (1 + 1e-9)) << name_of(method) << " at " << gbit;
      slower = seconds;
    }
    double quicker = 0;
    for (double latency = 1e-6; latency < 1e-2; latency *= 2) {
      const double seconds = seconds_of(profile, example_network(32, 10, latency), method);
      EXPECT_GE(seconds, quicker * (1 - 1e-9)) << name_of(method) << " at " << latency;
      quicker = seconds;
    }
  }
}

TEST(Simulation, IsNeverFasterWithMoreWorkers) {
  const Profile profile = example_profile("resnet-50", 0.2);
  for (const Method method : kAllMethods) {
    double fewer = 0;
    for (int64_t workers = 1; workers <= 1024; workers *= 2) {
      const double seconds = seconds_of(profile, example_network(workers, 10), method);
      EXPECT_GE(seconds, fewer * (1 - 1e-9)) << name_of(method) << " with " << workers;
      fewer = seconds;
    }
  }
}

TEST(Simulation, SendsWhatTheMethodsSend) {
  const Profile profile = example_profile("bert-base", 0.1);
  const auto first_bytes = [&](const MethodChoice& choice) {
    double bytes = 0;
    for (const Bucket& bucket : profile.buckets) {
      bytes += bucket_cost(profile, bucket, choice, 8, AcpsgdStep::p).rounds[0].bytes;
    }
    return bytes;
  };
  const double all = profile.gradient_bytes();
  EXPECT_EQ(first_bytes({.method = Method::allreduce}), all);
  EXPECT_EQ(first_bytes({.method = Method::half}), all / 2);
  EXPECT_NEAR(first_bytes({.method = Method::sign}), all / 32, all / 3200);
  EXPECT_NEAR(first_bytes({.method = Method::sign_vote}), all / 32, all / 3200);
  // 1 % of the elements at 32 bits and a position of about 8.2.
  EXPECT_NEAR(first_bytes({.method = Method::topk}), 0.01 * all * 40.2 / 32, 0.0003 * all);
  EXPECT_NEAR(first_bytes({.method = Method::adacomp}), 1.125 * all / 200, 0.0001 * all);
}

TEST(Simulation, RefusesAnAssignmentToOtherBuckets) {
  const Profile profile = two_buckets();
  EXPECT_THROW(simulate(profile, slow_link(), Assignment(3)), std::invalid_argument);
}

TEST(Simulation, OfBertLargeAtAThousandWorkersRunsAThousandTimesASecond) {
  const Profile profile = example_profile("bert-large", 0.2);
  const Network network = example_network(1024, 10);
  for (const Method method : kAllMethods) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) seconds_of(profile, network, method);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    EXPECT_GT(100 / taken.count(), 1000) << name_of(method);
  }
}

}  // namespace
}  // namespace gradwire::planner
