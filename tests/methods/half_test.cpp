#include <gtest/gtest.h>

#include "gradients.h"
#include "methods/device_code.h"
#include "simulated_world.h"
#include "threads.h"

namespace gradwire {
namespace {

// What ALGORITHMS says, for one parameter: the same operations in the same order, so equal in every
// bit.
at::Tensor mean_of(const Gradients& gradients, size_t parameter, at::ScalarType type) {
  at::Tensor sum = at::zeros(gradients[0][parameter].sizes());
  for (const auto& worker : gradients)
    sum += worker[parameter].to(at::kFloat).to(type).to(at::kFloat);
  return (sum * (1.0F / static_cast<float>(gradients.size()))).to(type).to(at::kFloat);
}

struct Setting {
  int workers;
  std::string dtype;
  bool aten;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const int workers : {1, 2, 3, 4, 7}) {
    for (const char* dtype : {"bf16", "fp16"}) {
      for (const bool aten : {false, true}) settings.push_back({workers, dtype, aten});
    }
  }
  return settings;
}

class Half : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (GetParam().aten) forced_.emplace(aten_code());
  }
  int workers() const { return GetParam().workers; }
  at::ScalarType type() const { return GetParam().dtype == "fp16" ? at::kHalf : at::kBFloat16; }
  SimulatedWorld make_world(const Shapes& shapes = kShapes) const {
    return {"half", {{"dtype", GetParam().dtype}}, workers(), shapes};
  }
  void expect_mean(const Gradients& results, const Gradients& gradients) const {
    expect_alike(results);
    for (size_t i = 0; i < results[0].size(); ++i) {
      const at::Tensor expected = mean_of(gradients, i, type()).to(results[0][i].scalar_type());
      // Which NaN and which zero is the business of the kernel's own tests.
      EXPECT_TRUE(results[0][i].allclose(expected, 0, 0, /*equal_nan=*/true)) << "parameter " << i;
    }
  }

 private:
  std::optional<ForceCode> forced_;
};
INSTANTIATE_TEST_SUITE_P(Settings, Half, testing::ValuesIn(all_settings()), [](const auto& info) {
  return info.param.dtype + "_" + std::to_string(info.param.workers) +
         (info.param.aten ? "_by_aten" : "_by_kernel");
});

TEST_P(Half, TakesTheMean) {
  SimulatedWorld world = make_world();
  for (int step = 0; step < 10; ++step) {
    const Gradients gradients = random_gradients(workers(), step);
    const Gradients results = world.step(gradients);
    expect_mean(results, gradients);
    at::Tensor mean = at::zeros({300, 500});
    for (const auto& worker : gradients) mean += worker[5] / workers();
    EXPECT_LT(distance(results[0][5], mean), type() == at::kHalf ? 1e-3 : 8e-3);
  }
}

TEST_P(Half, TakesAZeroGradient) {
  SimulatedWorld world = make_world();
  Gradients gradients = random_gradients(workers(), 0);
  gradients[0][3].zero_();
  for (auto& worker : gradients) worker[4].zero_();
  const Gradients results = world.step(gradients);
  expect_mean(results, gradients);
  EXPECT_TRUE(same_bits(results[0][4], at::zeros({32, 4, 3, 3})));
}

TEST_P(Half, PassesOnWhatIsNotFinite) {
  SimulatedWorld world = make_world();
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    Gradients gradients = random_gradients(workers(), 0);
    gradients[workers() - 1][5][299][499] = bad;
    gradients[0][0].fill_(bad);
    const Gradients results = world.step(gradients);
    expect_mean(results, gradients);
    for (const auto& worker : results) {
      EXPECT_FALSE(at::isfinite(worker[5][299][499]).item<bool>());
      EXPECT_FALSE(at::isfinite(worker[0]).item<bool>());
      EXPECT_TRUE(at::isfinite(worker[3]).all().item<bool>());
    }
  }
}

// 1e30 is beyond fp16 and becomes an infinity there.
TEST_P(Half, TakesSpecialValues) {
  SimulatedWorld world = make_world(kSpecialShapes);
  const Gradients gradients = special_gradients(workers());
  const Gradients results = world.step(gradients);
  expect_mean(results, gradients);
  EXPECT_EQ(at::isfinite(results[0][1]).all().item<bool>(), type() == at::kBFloat16);
}

TEST_P(Half, TakesHalvesAndAnyStrides) {
  SimulatedWorld world = make_world(kUnusualShapes);
  const Gradients gradients = unusual_gradients(workers());
  const Gradients results = world.step(gradients);
  EXPECT_EQ(results[0][0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(results[0][1].scalar_type(), at::kHalf);
  expect_mean(results, gradients);
}

TEST_P(Half, SendsTwoBytesPerElementAndCountsAllOfThem) {
  const Shapes shapes = {{}, {7}, {64, 48}};
  SimulatedWorld world = make_world(shapes);
  world.step(random_gradients(workers(), 0, shapes));
  const int64_t elements = 1 + 7 + 64 * 48;
  ASSERT_EQ(world.sent().size(), 2U * workers());
  for (int worker = 0; worker < workers(); ++worker) {
    int64_t counted = 0;
    for (const int64_t bytes : world.payload_bytes()[worker]) counted += bytes;
    EXPECT_EQ(world.sent()[worker].numel(), counted);
    EXPECT_GE(counted, 2 * elements);
    EXPECT_LT(counted, 2 * (elements + 8 * workers()));
    EXPECT_EQ(world.sent()[workers() + worker].numel() * workers(), counted);
  }
}

TEST_P(Half, RemembersNothing) {
  SimulatedWorld world = make_world();
  world.step(random_gradients(workers(), 0));
  EXPECT_FALSE(world.state(0, 3).residual().defined());
  EXPECT_TRUE(world.state(0, 3).tensors().empty());
}

TEST(HalfPayload, DoesNotDependOnTheNumberOfThreads) { expect_independent_of_threads("half", {}); }

TEST(HalfOptions, NameTheTypes) {
  const MethodEntry& half = find_method("half");
  EXPECT_EQ(std::get<std::string>(complete_options(half, {}).at("dtype")), "bf16");
  EXPECT_THROW(complete_options(half, {{"dtype", std::string("fp32")}}), std::invalid_argument);
  EXPECT_THROW(complete_options(half, {{"error_feedback", true}}), std::invalid_argument);
}

}  // namespace
}  // namespace gradwire
