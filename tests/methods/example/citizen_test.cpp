// docs/adding_a_method.md promises that one file and one line in the registry are enough. The other
// tests of this program put the method through what every method goes through; these look for it
// wherever methods are listed.

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/bench_method.h"
#include "gradwire/methods.h"
#include "planner/plan.h"

namespace gradwire {
namespace {

constexpr const char* kName = "cyclic";

TEST(Citizen, IsDescribed) {
  const std::vector<MethodDescription> all = methods();
  const auto found = std::ranges::find(all, kName, &MethodDescription::name);
  ASSERT_NE(found, all.end());
  EXPECT_EQ(found->colour, find_method(kName).models.front().colour);
  ASSERT_EQ(found->variants.size(), 2U);
  EXPECT_EQ(found->variants[1].name, "cyclic-halves");
}

TEST(Citizen, IsPlannedWithItsOptions) {
  const nlohmann::json fields = {
      {"compute", "0.2"}, {"workers", {8}}, {"bandwidth", {"1gbit"}}, {"density", 0.5}};
  const planner::SweepRequest request = planner::sweep_request(
      planner::plan_request_from_json(fields, method_models()), method_models());
  const nlohmann::json point = to_json(request, sweep(request))["points"][0]["methods"];
  // Half of the bytes on a slow link.
  EXPECT_NEAR(point[kName]["speed_up"].get<double>(), 2, 0.2);
}

TEST(Citizen, IsACandidateOfAuto) {
  const auto candidates = [](bool delayed) {
    return subset_of(complete_options(find_method(kAuto), {{"delayed", delayed}}).at("candidates"));
  };
  EXPECT_EQ(std::ranges::count(candidates(/*delayed=*/true), kName), 1);
  EXPECT_EQ(std::ranges::count(candidates(/*delayed=*/false), kName), 0);
  OptionMap named = {{"candidates", std::string("half+") + kName}};
  EXPECT_THROW(complete_options(find_method(kAuto), named), std::invalid_argument);
  named["delayed"] = true;
  EXPECT_NO_THROW(complete_options(find_method(kAuto), named));
}

TEST(Citizen, IsMeasuredAndVerifiedByTheBench) {
  std::vector<std::string> measured;
  for (const bench::Subject& subject : bench::subjects(1)) {
    if (subject.method->name != kName) continue;
    bench::MethodRun run(subject);
    for (int step = 0; step < 12; ++step) run.step(1);
    EXPECT_NO_THROW(run.verify());
    EXPECT_LT(run.error(), 1e-4);
    EXPECT_EQ(subject.operations(0), 0);
    measured.push_back(subject.name);
  }
  EXPECT_EQ(measured, (std::vector<std::string>{"cyclic", "cyclic-halves"}));
}

}  // namespace
}  // namespace gradwire
