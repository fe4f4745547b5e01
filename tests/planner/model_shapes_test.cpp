#include "planner/model_shapes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "example_methods.h"

namespace gradwire::planner {
namespace {

int64_t elements_of(const Profile& profile) {
  return static_cast<int64_t>(profile.gradient_bytes() / 4);
}

// Bytes of gradient per byte of a low-rank factor: P in one step, Q in the next.
double volume_ratio(const char* model, int64_t rank, int step) {
  const Profile profile = model_profile(model, 1);
  const MethodChoice choice{&kFactored, {{"rank", rank}}};
  double sent = 0;
  for (const Bucket& bucket : profile.buckets) {
    sent += bucket_cost(profile, bucket, choice, 32, step).rounds[0].bytes;
  }
  return profile.gradient_bytes() / sent;
}

TEST(Models, HaveTheirWellKnownSizes) {
  EXPECT_EQ(elements_of(model_profile("resnet-50", 1)), 25557032);
  EXPECT_EQ(elements_of(model_profile("resnet-152", 1)), 60192808);
  EXPECT_EQ(elements_of(model_profile("bert-base", 1)), 110106428);
  EXPECT_EQ(elements_of(model_profile("bert-large", 1)), 336226108);
  EXPECT_EQ(elements_of(model_profile("gpt2", 1)), 124439808);
}

TEST(Models, AreValidProfiles) {
  for (const std::string& model : model_names()) {
    const Profile profile = model_profile(model, 0.3);
    EXPECT_NO_THROW(profile.check()) << model;
    EXPECT_DOUBLE_EQ(profile.compute_seconds(), 0.3) << model;
    EXPECT_NEAR(profile.buckets.back().ready_seconds, 0.2, 1e-12) << model;
  }
}

TEST(Models, ThatDoNotExistAreRefusedNamingThoseThatDo) {
  try {
    model_profile("bert", 1);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "there is no built-in model \"bert\"; there are resnet-50, resnet-152, bert-base,"
                 " bert-large, gpt2");
  }
}

TEST(Shapes, AreReadyInProportionToTheirMatrices) {
  // A bucket closes at 1 MiB first, so each matrix has its own.
  const Profile profile = shapes_profile(
      {{"first", {1024, 1024}}, {"bias", {1024}}, {"last", {512, 1024}}}, /*compute_seconds=*/3);
  EXPECT_NO_THROW(profile.check());
  ASSERT_EQ(profile.buckets.size(), 2U);
  EXPECT_EQ(profile.buckets[0].parameters, std::vector<size_t>{2});
  EXPECT_NEAR(profile.buckets[0].ready_seconds, 2.0 / 3, 1e-12);
  EXPECT_NEAR(profile.buckets[1].ready_seconds, 2, 1e-12);
}

TEST(Shapes, MayBeVectorsAlone) {
  const Profile profile = shapes_profile({{"a", {3}}, {"b", {}}}, 3);
  EXPECT_NO_THROW(profile.check());
  EXPECT_NEAR(profile.buckets.back().ready_seconds, 2, 1e-12);
}

// The ratios that the ACP-SGD paper calculates, P step and Q step. They count the vectors that
// travel uncompressed.
TEST(Models, GiveThePublishedVolumeRatiosOfAcpsgd) {
  const struct {
    const char* model;
    int64_t rank;
    double p;
    double q;
  } published[] = {{"resnet-50", 4, 155, 93},
                   {"resnet-152", 4, 131, 72},
                   {"bert-base", 32, 29, 38},
                   {"bert-large", 32, 40, 44}};
  for (const auto& [model, rank, p, q] : published) {
    EXPECT_EQ(std::round(volume_ratio(model, rank, 0)), p) << model;
    EXPECT_EQ(std::round(volume_ratio(model, rank, 1)), q) << model;
  }
}

}  // namespace
}  // namespace gradwire::planner
