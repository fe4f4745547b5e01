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

TEST(Plan, SaysWhatIsWrong) {
  EXPECT_EQ(refusal_of({{"rank", 0}}), "[plan] rank must be positive; got 0");
  EXPECT_EQ(refusal_of({{"workers", {0}}}), "[plan] workers must be positive; got 0");
  EXPECT_EQ(refusal_of({{"rate", 0.5}}), "[plan] rate must be 1 or more; got 0.5");
  EXPECT_EQ(refusal_of({{"device", "tpu"}}), "[plan] device must be gpu or cpu; got tpu");
  EXPECT_EQ(refusal_of({{"bandwith", 1}}), "[plan] bandwith is not a field there is");
  EXPECT_EQ(refusal_of({{"device_tflops", -1}}), "[plan] device_tflops must be positive; got -1");
  EXPECT_EQ(refusal_of({{"compute", "0"}}), "[plan] compute must be more than 0; got 0");
}

}  // namespace
}  // namespace gradwire::planner
