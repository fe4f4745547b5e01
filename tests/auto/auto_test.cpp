#include <gtest/gtest.h>

#include "gradient_feeder.h"
#include "world.h"

namespace gradwire {
namespace {

using Methods = std::map<std::string, std::string>;

const std::vector<std::vector<int64_t>> kModel = {{400, 300}, {300}, {300, 200}};

// There are six plain steps, then up to six trials of seven steps each, and those that are close
// again.
constexpr int kSteps = 111;

struct Record {
  Methods plan;
  bool is_resumed_alike = true;  // after every step
  State state;
};

// Nothing is computed here, so all that a step takes is communication: there is something to gain.
std::vector<Record> trained(const Options& options) {
  return run_world<Record>(2, [&](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(kModel), group, options);
    DistributedDataParallel resumed(GradientFeeder(kModel), group, options);
    Record record;
    for (int step = 0; step < kSteps; ++step) {
      results_of_step(ddp, gradients_for(group->getRank(), step, kModel));
      resumed.load_state(ddp.state());
      record.is_resumed_alike &= resumed.stats().plan == ddp.stats().plan;
    }
    record.plan = ddp.stats().plan;
    record.state = ddp.state();
    return record;
  });
}

TEST(Auto, DecidesAlikeOnAllWorkersAndIsResumed) {
  const std::vector<Record> records = trained({.method = "auto", .rank = 2});
  EXPECT_EQ(records[0].plan, records[1].plan);
  for (const Record& record : records) EXPECT_TRUE(record.is_resumed_alike);
  EXPECT_NE(records[0].state.at("worker0/auto").toStringRef(), "");  // something was decided
}

TEST(Auto, LeavesStatesThatBelongTogether) {
  const std::vector<Record> records = trained({.method = "auto", .rank = 2});
  StateMerger merger;
  for (const Record& record : records) merger.add(record.state);
  EXPECT_EQ(merger.merged().at("merged/auto"), records[0].state.at("worker0/auto"));
}

}  // namespace
}  // namespace gradwire
