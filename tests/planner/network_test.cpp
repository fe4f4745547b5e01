#include "planner/network.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace gradwire::planner {
namespace {

constexpr Link kOutside{.latency = 1e-4, .bandwidth = 1e9};
constexpr Link kInside{.latency = 1e-5, .bandwidth = 1e10};

Network flat(int64_t workers, AllReduce all_reduce = AllReduce::ring) {
  return {.workers = workers, .between_nodes = kOutside, .all_reduce = all_reduce};
}

TEST(Cost, OfARingIsItsFormula) {
  const Transfer cost = cost_of(Collective::all_reduce, 4e6, flat(8));
  EXPECT_DOUBLE_EQ(cost.latency, 2 * 7 * 1e-4);
  EXPECT_DOUBLE_EQ(cost.seconds, 2 * 7.0 / 8 * 4e6 / 1e9);
}

TEST(Cost, OfATreeGrowsWithTheLogarithm) {
  const Transfer cost = cost_of(Collective::all_reduce, 4e6, flat(8, AllReduce::tree));
  EXPECT_DOUBLE_EQ(cost.latency, 2 * 3 * 1e-4);
  EXPECT_DOUBLE_EQ(cost.seconds, 2 * 4e6 / 1e9);
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_reduce, 1, flat(9, AllReduce::tree)).latency, 8e-4);
}

TEST(Cost, OfTheFastestIsTheTreeForSmallMessagesAndTheRingForLarge) {
  for (const double bytes : {1e3, 1e8}) {
    const double ring = cost_of(Collective::all_reduce, bytes, flat(8)).alone();
    const double tree = cost_of(Collective::all_reduce, bytes, flat(8, AllReduce::tree)).alone();
    EXPECT_EQ(cost_of(Collective::all_reduce, bytes, flat(8, AllReduce::fastest)).alone(),
              std::min(ring, tree));
    EXPECT_EQ(ring < tree, bytes == 1e8);
  }
}

TEST(Cost, OfGatheringGrowsWithTheWorkersAndOfAllToAllDoesNot) {
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_gather, 1e6, flat(8)).seconds, 7 * 1e6 / 1e9);
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_to_all, 8e6, flat(8)).seconds, 7 * 1e6 / 1e9);
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_gather, 1e6, flat(8)).latency, 7e-4);
}

// An all-reduce is the two others one after the other: of the buffer, then of its slices.
TEST(Cost, OfARingIsThatOfAllToAllAndAllGather) {
  for (const int64_t workers : {2, 5, 64}) {
    const double slice = 1e6 / static_cast<double>(workers);
    EXPECT_DOUBLE_EQ(cost_of(Collective::all_reduce, 1e6, flat(workers)).seconds,
                     cost_of(Collective::all_to_all, 1e6, flat(workers)).seconds +
                         cost_of(Collective::all_gather, slice, flat(workers)).seconds);
  }
}

TEST(Cost, OfNodesHasAPartInsideAndAPartBetween) {
  const Network network{.workers = 32,
                        .between_nodes = kOutside,
                        .workers_per_node = 8,
                        .inside_node = kInside,
                        .all_reduce = AllReduce::ring};
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_reduce, 8e6, network).seconds,
                   2 * 7.0 / 8 * 8e6 / 1e10 + 2 * 3.0 / 4 * 8e6 / 1e9);
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_reduce, 8e6, network).latency, 14 * 1e-5 + 6 * 1e-4);
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_gather, 1e6, network).seconds,
                   7 * 4 * 1e6 / 1e10 + 3 * 8 * 1e6 / 1e9);
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_to_all, 32e6, network).seconds,
                   7 * 1e6 / 1e10 + 8 * 24 * 1e6 / 1e9);
}

TEST(Cost, WithinOneNodeNeedsNoLinkBetweenNodes) {
  const Network network{.workers = 4, .workers_per_node = 8, .inside_node = kInside};
  EXPECT_DOUBLE_EQ(cost_of(Collective::all_reduce, 4e6, network).seconds, 6e6 / 1e10);
}

TEST(Cost, OfOneWorkerOrOfNothingIsNothing) {
  EXPECT_EQ(cost_of(Collective::all_gather, 1e6, flat(1)).alone(), 0);
  EXPECT_EQ(cost_of(Collective::all_reduce, 0, flat(8)).alone(), 0);
}

TEST(Network, RefusesNodesThatAreNotFull) {
  EXPECT_THROW((Network{.workers = 12, .workers_per_node = 8}.check()), std::invalid_argument);
  EXPECT_THROW((Network{.workers = 0}.check()), std::invalid_argument);
  EXPECT_THROW((Network{.workers = 2, .between_nodes = {.bandwidth = 0}}.check()),
               std::invalid_argument);
  EXPECT_NO_THROW((Network{.workers = 4, .workers_per_node = 8}.check()));
}

}  // namespace
}  // namespace gradwire::planner
