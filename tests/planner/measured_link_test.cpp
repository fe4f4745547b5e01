#include "planner/measured_link.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gradwire::planner {
namespace {

using nlohmann::json;

MeasuredLink example() {
  return {.workers = 4,
          .fits = {CollectiveFit{.latency = 30e-6, .bandwidth = 100e6, .r_squared = 0.99},
                   CollectiveFit{.latency = 60e-6, .bandwidth = 120e6},
                   CollectiveFit{.latency = 90e-6, .bandwidth = 60e6}}};
}

std::string refusal_of(const json& damaged) {
  try {
    measured_link_from_json(damaged);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(MeasuredLink, GivesEveryCollectiveItsOwnCost) {
  const MeasuredLink measured = example();
  const Network network = {.workers = 4,
                           .between_nodes = measured.link(),
                           .all_reduce = AllReduce::ring,
                           .slowness = measured.slowness()};
  for (size_t i = 0; i < kCollectives; ++i) {
    const Network own = {.workers = 4,
                         .between_nodes = {measured.fits[i].latency, measured.fits[i].bandwidth},
                         .all_reduce = AllReduce::ring};
    const Transfer expected = cost_of(static_cast<Collective>(i), 1e6, own);
    const Transfer found = cost_of(static_cast<Collective>(i), 1e6, network);
    EXPECT_NEAR(found.latency, expected.latency, 1e-12);
    EXPECT_NEAR(found.seconds, expected.seconds, 1e-12);
  }
}

TEST(MeasuredLink, MayHaveNoLatencyAtAll) {
  MeasuredLink measured = example();
  for (CollectiveFit& fit : measured.fits) fit.latency = 0;
  EXPECT_EQ(measured.slowness()[0].latency, 1);
}

TEST(MeasuredLinkJson, RoundTrips) {
  const json written = to_json(example());
  EXPECT_EQ(written["format"], "gradwire-link-1");
  EXPECT_DOUBLE_EQ(written["gbit_per_s"], 0.8);
  const json again = to_json(measured_link_from_json(json::parse(written.dump())));
  EXPECT_DOUBLE_EQ(again["all_to_all"]["gbit_per_s"], written["all_to_all"]["gbit_per_s"]);
  EXPECT_EQ(again["workers"], 4);
}

TEST(MeasuredLinkJson, NamesTheFieldThatIsWrong) {
  const auto damaged = [&](const char* pointer, const json& value) {
    json copy = to_json(example());
    copy[json::json_pointer(pointer)] = value;
    return refusal_of(copy);
  };
  EXPECT_EQ(damaged("/format", "x"), "[link] format is \"x\", not \"gradwire-link-1\"");
  EXPECT_EQ(damaged("/workers", 1), "[link] workers must be at least 2; got 1");
  EXPECT_EQ(damaged("/workers", 2.5), "[link] workers must be a whole number, not 2.5");
  EXPECT_EQ(damaged("/all_gather/gbit_per_s", 0), "[link] all_gather.gbit_per_s must be positive");
  EXPECT_EQ(damaged("/all_gather", 3), "[link] all_gather must be an object");
}

}  // namespace
}  // namespace gradwire::planner
