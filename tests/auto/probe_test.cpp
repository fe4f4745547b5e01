#include "auto/probe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "world.h"

namespace gradwire {
namespace {

const ProbeOptions kShort = {.seconds_per_collective = 0.2};

TEST(Probe, TellsEveryWorkerTheSame) {
  const auto links = run_world<nlohmann::json>(
      3, [](const Group& group) { return to_json(probe(*group, kShort)); });
  EXPECT_EQ(links[0]["workers"], 3);
  EXPECT_GT(links[0]["all_to_all"]["gbit_per_s"], 0);
  EXPECT_EQ(links[1], links[0]);
  EXPECT_EQ(links[2], links[0]);
}

TEST(Probe, NeedsANetwork) {
  const auto outcomes = run_world_with_errors<bool>(1, [](const Group& group) {
    probe(*group, kShort);
    return true;
  });
  EXPECT_THROW(std::rethrow_exception(outcomes[0].error), std::invalid_argument);
}

}  // namespace
}  // namespace gradwire
