// Momentum correction, which is the same for every method that has it.

#include "methods/momentum.h"

#include <gtest/gtest.h>

#include "gradients.h"
#include "simulated_world.h"

namespace gradwire {
namespace {

constexpr float kMomentum = 0.9F;

// A method with options that may have momentum correction.
struct Corrected {
  std::string name;
  std::string method;
  OptionMap options = {};

  OptionMap with_momentum() const {
    OptionMap all = options;
    all["momentum"] = 0.9;
    return all;
  }
};

void PrintTo(const Corrected& corrected, std::ostream* out) { *out << corrected.name; }

// All methods that have the option, and sign with its other exchange.
std::vector<Corrected> corrected_methods() {
  std::vector<Corrected> all;
  for (const MethodEntry& entry : registry()) {
    if (std::ranges::find(entry.options, "momentum", &OptionSpec::name) == entry.options.end()) {
      continue;
    }
    all.push_back({entry.name, entry.name});
    all.push_back({entry.name + "_without_feedback", entry.name, {{"error_feedback", false}}});
  }
  all.push_back({"sign_one_scale", "sign", {{"block", int64_t{0}}}});
  return all;
}

at::Tensor kept(SimulatedWorld& world, int worker, size_t parameter, const std::string& name) {
  for (const StateTensor& tensor : world.state(worker, parameter).tensors()) {
    if (tensor.name == name) return tensor.tensor.clone();
  }
  return {};
}

class Momentum : public testing::TestWithParam<Corrected> {
 protected:
  static SimulatedWorld world(int workers, const Shapes& shapes = kShapes) {
    return {GetParam().method, GetParam().with_momentum(), workers, shapes};
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, Momentum, testing::ValuesIn(corrected_methods()),
                         [](const auto& info) { return info.param.name; });

// Beside it runs the method as it is, which gets the velocities as its gradients.
TEST_P(Momentum, SendsTheVelocityAndGivesWhatSgdMakesItsResultOf) {
  constexpr int kWorkers = 3;
  SimulatedWorld corrected = world(kWorkers);
  SimulatedWorld plain(GetParam().method, GetParam().options, kWorkers, kShapes);
  Gradients velocities;
  for (int64_t step = 0; step < 6; ++step) {
    const Gradients gradients = random_gradients(kWorkers, step);
    if (step == 0) velocities = random_gradients(kWorkers, 0);
    for (int worker = 0; worker < kWorkers && step > 0; ++worker) {
      for (size_t i = 0; i < kShapes.size(); ++i) {
        velocities[worker][i] = (velocities[worker][i] * kMomentum) + gradients[worker][i];
      }
    }
    std::vector<at::Tensor> before;
    for (size_t i = 0; i < kShapes.size(); ++i) {
      before.push_back(kept(corrected, 0, i, "common_velocity"));
    }
    const Gradients wanted = plain.step(velocities);
    const Gradients results = corrected.step(gradients);
    expect_alike(results);
    for (size_t i = 0; i < kShapes.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(step) + ", parameter " + std::to_string(i));
      EXPECT_TRUE(same_bits(kept(corrected, 2, i, "velocity"), velocities[2][i]));
      EXPECT_TRUE(same_bits(kept(corrected, 2, i, "common_velocity"), wanted[0][i]));
      EXPECT_TRUE(results[0][i].equal(wanted[0][i] - before[i] * kMomentum));
      if (plain.state(2, i).residual().defined()) {
        EXPECT_TRUE(same_bits(kept(corrected, 2, i, "residual"), plain.residual(2, i)));
      }
    }
  }
}

// The first parameter is not finite in step 2 on one worker: nothing of it may change. The
// optimizer does not see the others' results either, but their workers have sent their velocities.
TEST_P(Momentum, IsLeftAsItWasByAStepThatIsNotFinite) {
  const Shapes shapes = {{40, 30}, {25}};
  SimulatedWorld simulated = world(2, shapes);
  for (int64_t step = 0; step < 2; ++step) simulated.step(random_gradients(2, step, shapes));
  Gradients bad = random_gradients(2, 2, shapes);
  bad[1][0][3][4] = kNan;
  const auto all = [&](const std::string& name) {
    std::vector<at::Tensor> tensors;
    for (const int worker : {0, 1}) {
      for (const size_t i : {0, 1}) tensors.push_back(kept(simulated, worker, i, name));
    }
    return tensors;
  };
  const auto velocities = all("velocity");
  const auto common = all("common_velocity");
  const Gradients results = simulated.step(bad);
  EXPECT_TRUE(results[0][0].isnan().any().item<bool>());
  EXPECT_TRUE(results[0][1].isfinite().all().item<bool>());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(same_bits(all("common_velocity")[i], common[i])) << i;
    EXPECT_EQ(same_bits(all("velocity")[i], velocities[i]), i % 2 == 0) << i;
  }
}

TEST_P(Momentum, OfAWorkerThatAbstainsStays) {
  const Shapes shapes = {{40, 30}};
  SimulatedWorld simulated = world(2, shapes);
  for (int64_t step = 0; step < 2; ++step) simulated.step(random_gradients(2, step, shapes));
  const at::Tensor own = kept(simulated, 0, 0, "velocity");
  const at::Tensor others = kept(simulated, 1, 0, "velocity");
  Gradients gradients = random_gradients(2, 2, shapes);
  gradients[0][0].zero_();
  simulated.step(gradients);
  EXPECT_TRUE(same_bits(kept(simulated, 0, 0, "velocity"), own));
  EXPECT_FALSE(same_bits(kept(simulated, 1, 0, "velocity"), others));
  // If nobody uses the parameter, the optimizer's velocity stays, too.
  gradients[1][0].zero_();
  const at::Tensor common = kept(simulated, 0, 0, "common_velocity");
  EXPECT_FALSE(simulated.step(gradients)[0][0].any().item<bool>());
  EXPECT_TRUE(same_bits(kept(simulated, 0, 0, "velocity"), own));
  EXPECT_TRUE(same_bits(kept(simulated, 0, 0, "common_velocity"), common));
}

TEST_P(Momentum, NeedsNoParticularMemory) {
  Gradients gradients = unusual_gradients(2);
  SimulatedWorld simulated = world(2, kUnusualShapes);
  SimulatedWorld plain(GetParam().method, GetParam().options, 2, kUnusualShapes);
  const Gradients wanted = plain.step(gradients);
  const Gradients results = simulated.step(gradients);
  for (size_t i = 0; i < kUnusualShapes.size(); ++i) {
    EXPECT_EQ(results[0][i].scalar_type(), gradients[0][i].scalar_type());
    EXPECT_TRUE(results[0][i].equal(wanted[0][i])) << i;  // the first step's are the same
  }
}

TEST(MomentumOption, MakesTheVelocityOfPlainSgdWhereNothingIsKeptBack) {
  SimulatedWorld world("topk", {{"density", 1.0}, {"momentum", 0.9}}, 4, kShapes);
  std::vector<at::Tensor> wanted;
  std::vector<at::Tensor> found;
  for (int64_t step = 0; step < 20; ++step) {
    const Gradients gradients = random_gradients(4, step);
    const Gradients results = world.step(gradients);
    for (size_t i = 0; i < kShapes.size(); ++i) {
      at::Tensor mean = at::zeros_like(gradients[0][i]);
      for (const auto& of_worker : gradients) mean += of_worker[i] / 4;
      if (step == 0) {
        wanted.push_back(mean);
        found.push_back(results[0][i].clone());
      } else {
        wanted[i].mul_(kMomentum).add_(mean);
        found[i].mul_(kMomentum).add_(results[0][i]);
      }
      EXPECT_LT(distance(found[i], wanted[i]), 1e-6) << "step " << step << ", parameter " << i;
    }
  }
}

TEST(MomentumOption, TakesMemoryOnlyIfItIsUsed) {
  SimulatedWorld world("topk", {{"momentum", 0.0}}, 1, {{8, 8}});
  EXPECT_EQ(world.state(0, 0).tensors().size(), 1);
  EXPECT_EQ(facts_of(find_method("topk")).momentum, 0);
  EXPECT_EQ(facts_of(find_method("topk"), {{"momentum", 0.5}}).momentum, 0.5);
}

TEST(MomentumOption, IsRefusedWhereItMeansNothing) {
  for (const char* method : {"allreduce", "half", "quant", "powersgd", "acpsgd", "auto"}) {
    EXPECT_THROW(complete_options(find_method(method), {{"momentum", 0.9}}), std::invalid_argument);
  }
  const MethodEntry& sign = find_method("sign");
  EXPECT_THROW(complete_options(sign, {{"mode", std::string("vote")}, {"momentum", 0.9}}),
               std::invalid_argument);
  for (const double wrong : {-0.1, 1.0, static_cast<double>(kNan)}) {
    EXPECT_THROW(complete_options(sign, {{"momentum", wrong}}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace gradwire
