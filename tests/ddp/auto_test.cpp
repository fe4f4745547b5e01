#include <gtest/gtest.h>

#include "gradient_feeder.h"
#include "world.h"

namespace gradwire {
namespace {

using Methods = std::map<std::string, std::string>;

const std::vector<std::vector<int64_t>> kModel = {{400, 300}, {300}, {300, 200}};

// Six plain steps, then decisions of seven steps each, some of them twice.
constexpr int kSteps = 40;

struct Record {
  Methods plan;
  Methods resumed_plan;
  State state;
};

// Nothing is computed here, so all that a step takes is communication: there is something to gain.
std::vector<Record> trained(const Options& options) {
  return run_world<Record>(2, [&](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(kModel), group, options);
    for (int step = 0; step < kSteps; ++step) {
      results_of_step(ddp, gradients_for(group->getRank(), step, kModel));
    }
    DistributedDataParallel resumed(GradientFeeder(kModel), group, options);
    resumed.load_state(ddp.state());
    return Record{
        .plan = ddp.stats().plan, .resumed_plan = resumed.stats().plan, .state = ddp.state()};
  });
}

TEST(Auto, DecidesAlikeOnAllWorkersAndIsResumed) {
  const std::vector<Record> records = trained({.method = "auto", .rank = 2});
  EXPECT_EQ(records[0].plan, records[1].plan);
  for (const Record& record : records) EXPECT_EQ(record.plan, record.resumed_plan);
  EXPECT_NE(records[0].state.at("worker0/auto").toStringRef(), "");  // something was decided
}

TEST(Auto, LeavesStatesThatBelongTogether) {
  const std::vector<Record> records = trained({.method = "auto", .rank = 2});
  StateMerger merger;
  for (const Record& record : records) merger.add(record.state);
  EXPECT_EQ(merger.merged().at("merged/auto"), records[0].state.at("worker0/auto"));
}

TEST(Auto, TakesNothingButItsCandidates) {
  for (const Record& record : trained({.method = "auto", .by_name = {{"candidates", "sign"}}})) {
    for (const auto& [name, text] : record.plan) {
      EXPECT_TRUE(text == "uncompressed" || text.starts_with("sign")) << name << ": " << text;
    }
  }
}

}  // namespace
}  // namespace gradwire
