#include "planner/plan.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "example_methods.h"
#include "planner/measured_link.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

SweepRequest asked(const json& fields) {
  return sweep_request(plan_request_from_json(fields, kModels), kModels);
}

std::string refusal_of(json fields) {
  fields.emplace("compute", "0.2");
  try {
    asked(fields);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

json example_link() {
  MeasuredLink link{.workers = 4, .fits = {}};
  for (CollectiveFit& fit : link.fits) fit = {.latency = 1e-4, .bandwidth = 1e8};
  link.fits[1].bandwidth = 5e7;
  return to_json(link);
}

TEST(Plan, HasDefaults) {
  const SweepRequest request = asked({{"compute", "0.2"}});
  EXPECT_EQ(request.workers, (std::vector<int64_t>{8, 32, 128, 1024}));
  EXPECT_EQ(request.bandwidths.size(), 5U);
  EXPECT_EQ(request.methods.size(), kModels.size());
  EXPECT_EQ(request.network.all_reduce, AllReduce::fastest);
}

TEST(Plan, HandsTheOptionsToTheModels) {
  const SweepRequest request =
      asked({{"compute", "0.2"}, {"methods", {"gathered", "factored"}}, {"rank", 8}, {"rate", 16}});
  ASSERT_EQ(request.methods.size(), 3U);
  EXPECT_EQ(request.methods[1].model, &kGathered);
  EXPECT_EQ(request.methods[1].number("rate"), 16);
  EXPECT_EQ(request.methods[2].number("rank"), 8);
  EXPECT_EQ(request.methods[2].number("min_ratio"), 2);
}

TEST(Plan, TakesEverythingFromTheLink) {
  const SweepRequest request = asked({{"compute", "0.2"}, {"link", example_link()}});
  EXPECT_EQ(request.workers, std::vector<int64_t>{4});
  ASSERT_EQ(request.bandwidths.size(), 1U);
  EXPECT_NEAR(request.bandwidths[0], 1e8, 1);
  EXPECT_NEAR(request.network.between_nodes.latency, 1e-4, 1e-9);
  EXPECT_EQ(request.network.all_reduce, AllReduce::ring);
  EXPECT_NEAR(request.network.slowness[1].transfer, 2, 1e-9);
}

TEST(Plan, AsksOtherBandwidthsOfTheSameLink) {
  const SweepRequest request = asked({{"compute", "0.2"},
                                      {"link", example_link()},
                                      {"workers", {16, 2}},
                                      {"bandwidth", {"10gbit"}}});
  EXPECT_EQ(request.workers, (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(request.bandwidths, std::vector<double>{1.25e9});
  EXPECT_NEAR(request.network.slowness[1].transfer, 2, 1e-9);
}

json example_profile_json() {
  return {{"format", "gradwire-profile-1"},
          {"name", "mine"},
          {"forward_seconds", 1},
          {"backward_seconds", 2},
          {"parameters", {{{"name", "w"}, {"shape", {64, 64}}}, {{"name", "b"}, {"shape", {64}}}}},
          {"buckets",
           {{{"parameters", {1}},
             {"ready_seconds", 0.5},
             {"encode_seconds", 0.25},
             {"decode_seconds", 0.25}},
            {{"parameters", {0}},
             {"ready_seconds", 2},
             {"encode_seconds", 0.25},
             {"decode_seconds", 0.25}}}},
          {"measured", {{"method", "gathered"}, {"workers", 4}}}};
}

TEST(Plan, ScalesTheComputeTimesOfAProfile) {
  const Profile scaled = asked({{"profile", example_profile_json()}, {"compute", "1.5"}}).profile;
  EXPECT_DOUBLE_EQ(scaled.forward_seconds, 0.5);
  EXPECT_DOUBLE_EQ(scaled.backward_seconds, 1);
  EXPECT_DOUBLE_EQ(scaled.buckets[0].ready_seconds, 0.25);
  EXPECT_DOUBLE_EQ(scaled.buckets[1].ready_seconds, 1);
  EXPECT_DOUBLE_EQ(scaled.buckets[0].measured.encode, 0.25);
  EXPECT_NO_THROW(scaled.check());
}

TEST(Plan, TakesAnyShapes) {
  const Profile profile =
      asked({{"compute", "0.3"},
             {"parameters", {{{"name", "a"}, {"shape", {8, 4}}}, {{"name", "b"}, {"shape", {5}}}}}})
          .profile;
  EXPECT_EQ(profile.gradient_bytes(), 4 * 37);
  EXPECT_DOUBLE_EQ(profile.compute_seconds(), 0.3);
}

TEST(Plan, SaysWhichShapeIsWrong) {
  const auto refusal = [](const json& parameters) {
    return refusal_of({{"parameters", parameters}});
  };
  const json good = {{"name", "a"}, {"shape", {2}}};
  EXPECT_EQ(refusal({{"a", {2, 3}}}),
            R"([parameters] must be a list of {"name": "fc.weight", "shape": [10, 20]})");
  EXPECT_EQ(refusal(json::array()), "[parameters] parameters is empty");
  EXPECT_EQ(refusal({good, {{"name", "b"}}}), "[parameters] parameters[1].shape is missing");
  EXPECT_EQ(refusal({good, good}), "[parameters] parameters[1].name is \"a\" once more");
  EXPECT_EQ(refusal({good, 3}), "[parameters] parameters[1] must be an object");
  EXPECT_EQ(refusal({{{"name", "a"}, {"shape", {2, 1.5}}}}),
            "[parameters] parameters[0].shape must hold whole numbers, not 1.5");
  EXPECT_EQ(refusal({{{"name", "a"}, {"shape", {0}}}}),
            "[parameters] parameter \"a\": its shape must have positive sizes only");
  EXPECT_EQ(refusal({{{"name", "a"}, {"shape", {int64_t{1} << 62, int64_t{1} << 62}}}}),
            "[parameters] parameter \"a\": there are more than 1e13 elements up to it");
}

TEST(Plan, RefusesFiguresThatWouldNotBeFinite) {
  EXPECT_EQ(refusal_of({{"compute", "nan"}}), "\"nan\" is not a time such as 0.2, 35ms or 20us");
  EXPECT_EQ(refusal_of({{"compute", "1e308"}}),
            "[plan] compute must be at most 1e6 seconds; got 1e308");
  EXPECT_EQ(refusal_of({{"compute", "1e-300"}}), "[plan] compute must be at least 1ns; got 1e-300");
  EXPECT_EQ(refusal_of({{"latency", "1e300"}}),
            "[plan] latency must be at most 1e6 seconds; got 1e300");
  EXPECT_EQ(refusal_of({{"bandwidth", {"1e300gbit"}}}),
            "[plan] bandwidth must be from 1kbit to 1000000tbit; got 1e300gbit");
  EXPECT_EQ(refusal_of({{"node_bandwidth", "1bit"}}),
            "[plan] node_bandwidth must be from 1kbit to 1000000tbit; got 1bit");
  EXPECT_EQ(refusal_of({{"workers", {int64_t{1} << 62}}}),
            "[plan] workers must be at most 10,000,000; got 4611686018427387904");
  EXPECT_EQ(refusal_of({{"device_memory_gbs", 1e300}}),
            "[plan] device_memory_gbs must be from 1e-6 to 1e9; got 1e+300");
  json profile = example_profile_json();
  profile["backward_seconds"] = 1e308;
  EXPECT_EQ(refusal_of({{"profile", profile}}),
            "[profile] forward_seconds and backward_seconds must be at most 1e6");
  profile = example_profile_json();
  profile["buckets"][0]["encode_seconds"] = 1e308;
  EXPECT_EQ(refusal_of({{"profile", profile}}),
            "[profile] the encode_seconds, between_seconds and decode_seconds of buckets must not "
            "be negative nor exceed 1e6");
}

TEST(Plan, SaysWhatIsWrong) {
  EXPECT_EQ(refusal_of({{"rank", 0}}), "[plan] rank must be positive; got 0");
  EXPECT_EQ(refusal_of({{"workers", {0}}}), "[plan] workers must be positive; got 0");
  EXPECT_EQ(refusal_of({{"rate", 0.5}}), "[plan] rate must be 1 or more; got 0.5");
  EXPECT_EQ(refusal_of({{"device", "tpu"}}), "[plan] device must be gpu or cpu; got tpu");
  EXPECT_EQ(refusal_of({{"bandwith", 1}}), "[plan] bandwith is not a field there is");
  EXPECT_EQ(refusal_of({{"device_tflops", -1}}), "[plan] device_tflops must be positive; got -1");
  EXPECT_EQ(refusal_of({{"delayed", 1}}), "[plan] delayed must be true or false, not 1");
  EXPECT_EQ(refusal_of({{"compute", "0"}}), "[plan] compute must be more than 0; got 0");
}

}  // namespace
}  // namespace gradwire::planner
