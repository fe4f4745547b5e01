// The setting of the ACP-SGD paper's headline figures, 4.06 times as fast as S-SGD and 1.43 times
// as fast as Power-SGD on average. docs/plan.md discusses what the model says of it; its figures
// are these.

#include <gtest/gtest.h>

#include <numeric>

#include "../planner/example_profile.h"
#include "methods/registry.h"
#include "planner/simulate.h"

namespace gradwire::planner {
namespace {

// Seconds of forward and backward: where they come from is in docs/plan.md.
struct PublishedJob {
  const char* model;
  double compute_seconds;
  int64_t rank;
};
constexpr PublishedJob kJobs[] = {{"resnet-50", 0.218, 4},
                                  {"resnet-152", 0.291, 4},
                                  {"bert-base", 0.167, 32},
                                  {"bert-large", 0.129, 32}};

Network published_network() {
  Network network = example_network(32, 10, 50e-6);
  network.all_reduce = AllReduce::ring;
  return network;
}

// All gradients in one bucket, which is ready when backward ends.
Profile without_overlap(Profile profile) {
  Bucket all{std::vector<size_t>(profile.parameters.size()), profile.backward_seconds};
  std::iota(all.parameters.begin(), all.parameters.end(), size_t{0});
  profile.buckets = {all};
  return profile;
}

double seconds_of(const Profile& profile, const char* method, int64_t rank) {
  const MethodChoice choice{&method_named(method_models(), method),
                            {{"rank", rank}, {"factor_bits", int64_t{32}}}};
  return simulate(profile, published_network(), choice).seconds;
}

TEST(PublishedSetting, IsPredictedAsDocumented) {
  double over_allreduce = 0;
  double over_powersgd = 0;
  double over_powersgd_after_backward = 0;
  for (const auto& [model, compute, rank] : kJobs) {
    const Profile profile = example_profile(model, compute, method_models());
    const double acpsgd = seconds_of(profile, "acpsgd", rank);
    over_allreduce += seconds_of(profile, "allreduce", rank) / acpsgd / 4;
    over_powersgd += seconds_of(profile, "powersgd", rank) / acpsgd / 4;
    over_powersgd_after_backward +=
        seconds_of(without_overlap(profile), "powersgd", rank) / acpsgd / 4;
  }
  EXPECT_NEAR(over_allreduce, 4.26, 0.02);
  EXPECT_NEAR(over_powersgd, 1.05, 0.02);
  EXPECT_NEAR(over_powersgd_after_backward, 1.20, 0.02);
}

}  // namespace
}  // namespace gradwire::planner
