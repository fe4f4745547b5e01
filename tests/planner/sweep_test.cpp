#include "planner/sweep.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "example_methods.h"
#include "example_profile.h"

namespace gradwire::planner {
namespace {

SweepRequest request_at(std::vector<int64_t> workers, std::vector<double> gbits) {
  SweepRequest request{.profile = example_profile("bert-base", 0.2, kModels),
                       .network = example_network(1, 1),
                       .workers = std::move(workers),
                       .methods = {{}, {&kSliced}, {&kFactored, {{"rank", int64_t{32}}}}},
                       .delayed = true};
  for (const double gbit : gbits) request.bandwidths.push_back(gbit * 1e9 / 8);
  return request;
}

TEST(Sweep, HasEveryPointAndItsSpeedUps) {
  const SweepRequest request = request_at({8, 64}, {1, 10, 400});
  const Sweep result = sweep(request);
  ASSERT_EQ(result.points.size(), 6U);
  EXPECT_EQ(result.points[4].workers, 64);
  EXPECT_EQ(result.points[4].bandwidth, 1.25e9);
  for (const SweepPoint& point : result.points) {
    EXPECT_EQ(point.speed_up(0), 1);
    EXPECT_EQ(point.predictions.size(), 3U);
  }
  EXPECT_GT(result.points[0].speed_up(2), 2);
  ASSERT_EQ(result.break_even.size(), 2U);
  EXPECT_EQ(result.break_even[0][0].helps, Helps::never);
}

TEST(Advice, IsToStayWithAllReduceOnAFastLink) {
  const SweepRequest request = request_at({8}, {400});
  EXPECT_EQ(advice(request, sweep(request)),
            "Stay with all-reduce: no rounded method makes steps 10 % shorter, and no delayed "
            "method makes steps 25 % shorter.");
  EXPECT_TRUE(advised(request, sweep(request)).empty());
}

TEST(Advice, NamesDelayedMethodsOnlyIfTheyMayBe) {
  SweepRequest request = request_at({8}, {1});
  EXPECT_EQ(advised(request, sweep(request)).front().model, &kFactored);
  EXPECT_EQ(possibility(request, sweep(request)), "");
  request.delayed = false;
  const Sweep careful = sweep(request);
  EXPECT_EQ(careful.points[0].recommended, &kSliced);
  ASSERT_EQ(advised(request, careful).size(), 1U);
  EXPECT_EQ(advised(request, careful)[0].recipe(), "sliced");
  EXPECT_EQ(advice(request, careful).rfind("Use sliced at 1 Gb/s (", 0), 0U);
  EXPECT_NE(possibility(request, careful).find("(--delayed): factored at 1 Gb/s ("),
            std::string::npos);
}

TEST(Advice, LeavesOutWhatIsNoCandidate) {
  SweepRequest request = request_at({8}, {1});
  MethodModel vote = kFactored;
  vote.is_candidate = false;
  request.methods = {{}, {&kSliced}, {&vote}};
  const Sweep result = sweep(request);
  EXPECT_GT(result.points[0].speed_up(2), result.points[0].speed_up(1));
  EXPECT_EQ(result.points[0].recommended, &kSliced);
}

TEST(Advice, IsToCompressOnASlowLink) {
  const SweepRequest request = request_at({8}, {1});
  const std::string sentence = advice(request, sweep(request));
  EXPECT_EQ(sentence.rfind("Use factored at 1 Gb/s (", 0), 0U) << sentence;
}

TEST(Advice, DependsOnTheBandwidth) {
  const SweepRequest request = request_at({8}, {1, 400});
  const std::string sentence = advice(request, sweep(request));
  EXPECT_NE(sentence.find("and stay with all-reduce at 400 Gb/s."), std::string::npos) << sentence;
}

TEST(Advice, SaysWhereTheNumberOfWorkersMatters) {
  SweepRequest request = request_at({8, 1024}, {10});
  request.methods = {{&kGathered}};
  const std::string sentence = advice(request, sweep(request));
  EXPECT_NE(
      sentence.find("and stay with all-reduce at 10 Gb/s, depending on the number of workers."),
      std::string::npos)
      << sentence;
}

TEST(SweepJson, HasTheFigures) {
  const SweepRequest request = request_at({8}, {1});
  const Sweep result = sweep(request);
  const nlohmann::json json = to_json(request, result);
  EXPECT_EQ(json["model"], "bert-base");
  EXPECT_EQ(json["points"][0]["recommended"], "factored");
  EXPECT_EQ(json["points"][0]["methods"]["factored"]["seconds"],
            result.points[0].predictions[2].seconds);
  EXPECT_EQ(json["advised"], nlohmann::json({"factored"}));
  EXPECT_EQ(json["methods"]["sliced"]["loss_class"], "rounded");
  EXPECT_EQ(json["methods"]["sliced"]["recipe"], "sliced");
  EXPECT_EQ(json["break_even_gbit_per_s"][0]["methods"]["allreduce"], "never");
}

TEST(Sweep, RefusesWhatIsNotFinite) {
  SweepRequest request = request_at({8}, {1});
  request.network.between_nodes.latency = 1e308;
  EXPECT_THROW(sweep(request), std::invalid_argument);
}

TEST(Sweep, RefusesNodesThatAreNotFull) {
  SweepRequest request = request_at({12}, {1});
  request.network.workers_per_node = 8;
  EXPECT_THROW(sweep(request), std::invalid_argument);
}

}  // namespace
}  // namespace gradwire::planner
