// What holds for topk and adacomp alike.

#include "methods/gathered.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "gathered_gradients.h"
#include "methods/device_code.h"
#include "simulated_world.h"

namespace gradwire {
namespace {

struct Case {
  std::string name;
  std::string method;
  OptionMap options;
  // Steps after which the residual has stopped growing under constant gradients. Small bins of
  // adacomp have to get far above the mean before they are sent often enough.
  int settled_after = 100;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

const std::vector<Case> every_case = {
    {"topk", "topk", {}},
    {"topk_dense", "topk", {{"density", 0.3}}},
    {"topk_bf16", "topk", {{"dtype", std::string("bf16")}}},
    {"topk_fp16", "topk", {{"dtype", std::string("fp16")}}},
    {"adacomp", "adacomp", {}},
    {"adacomp_small_bins", "adacomp", {{"bin_conv", int64_t{3}}, {"bin_dense", int64_t{7}}}, 1600},
    {"adacomp_one_bin", "adacomp", {{"bin_dense", int64_t{1} << 40}}},
};

class Gathered : public testing::TestWithParam<Case> {
 protected:
  SimulatedWorld world(int workers, const Shapes& shapes, bool error_feedback = true) const {
    OptionMap options = GetParam().options;
    options["error_feedback"] = error_feedback;
    return {GetParam().method, options, workers, shapes};
  }
};

INSTANTIATE_TEST_SUITE_P(Methods, Gathered, testing::ValuesIn(every_case),
                         [](const auto& info) { return info.param.name; });

TEST_P(Gathered, DropsNothingAndAllWorkersAgree) {
  for (const int workers : {1, 2, 3, 4}) {
    SimulatedWorld simulated = world(workers, kShapes);
    auto before = residuals(simulated, workers, kShapes.size());
    for (int step = 0; step < 6; ++step) {
      const auto gradients = gradients_of_step(workers, step, kShapes);
      const auto results = simulated.step(gradients);
      const auto after = residuals(simulated, workers, kShapes.size());
      for (size_t i = 0; i < kShapes.size(); ++i) {
        at::Tensor left = results[0][i].to(at::kDouble) * workers;
        at::Tensor right = at::zeros(kShapes[i], at::kDouble);
        for (int worker = 0; worker < workers; ++worker) {
          EXPECT_TRUE(same_bits(results[worker][i], results[0][i])) << worker << " " << i;
          left += after[worker][i].to(at::kDouble) - before[worker][i];
          right += gradients[worker][i];
        }
        const double unit = gradients[0][i].abs().max().item<double>();
        EXPECT_TRUE(left.allclose(right, 1e-5, 1e-5 * unit)) << "parameter " << i;
      }
      before = after;
    }
  }
}

// Under constant gradients the residual stays bounded, so the mean result approaches the gradient
// like 1 / T.
TEST_P(Gathered, RunningMeanConverges) {
  const Shapes shapes = {{7}, {40, 30}, {4, 5, 6}};
  const auto gradients = gradients_of_step(2, 0, shapes);
  SimulatedWorld simulated = world(2, shapes);
  Tensors sums;
  for (const auto& shape : shapes) sums.push_back(at::zeros(shape, at::kDouble));
  const auto errors_after = [&](int steps) {
    std::vector<double> errors;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const at::Tensor mean = (gradients[0][i] + gradients[1][i]).to(at::kDouble) / 2;
      errors.push_back(((sums[i] / steps - mean).norm() / mean.norm()).item<double>());
    }
    return errors;
  };
  std::vector<double> early;
  for (int step = 1; step <= 8 * GetParam().settled_after; ++step) {
    const auto results = simulated.step(gradients);
    for (size_t i = 0; i < shapes.size(); ++i) sums[i] += results[0][i];
    if (step == GetParam().settled_after) early = errors_after(step);
  }
  const std::vector<double> late = errors_after(8 * GetParam().settled_after);
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_LT(late[i], early[i] / 4 + 1e-4) << "parameter " << i;
  }
}

TEST_P(Gathered, CapacityChangesNothing) {
  const auto run = [&](size_t capacity) {
    std::vector<Tensors> history;
    SimulatedWorld simulated = world(3, kShapes);
    for (int step = 0; step < 4; ++step) {
      const ForceCapacity forced(capacity);
      auto results = simulated.step(gradients_of_step(3, step, kShapes));
      const size_t rounds = simulated.sent().size() / 3;
      EXPECT_EQ(rounds, capacity < 1000 ? 2U : 1U);
      results[0].push_back(simulated.residual(1, 5));
      history.push_back(results[0]);
    }
    return history;
  };
  const auto huge = run(1 << 30);
  for (const size_t capacity : {size_t{1}, size_t{200}}) {
    const auto tiny = run(capacity);
    for (size_t step = 0; step < huge.size(); ++step) {
      for (size_t i = 0; i < huge[step].size(); ++i) {
        EXPECT_TRUE(same_bits(tiny[step][i], huge[step][i])) << capacity << " " << step << " " << i;
      }
    }
  }
}

TEST_P(Gathered, FirstCapacityIsEnoughAndLaterOnesFollow) {
  SimulatedWorld simulated = world(2, kShapes);
  int64_t needed_before = std::numeric_limits<int32_t>::max();
  for (int step = 0; step < 6; ++step) {
    simulated.step(gradients_of_step(2, step, kShapes));
    int64_t largest_needed = 0;
    ASSERT_EQ(simulated.sent().size(), 2U) << "an overflow in step " << step;
    for (int worker = 0; worker < 2; ++worker) {
      const at::Tensor& sent = simulated.sent()[worker];
      const auto& bytes = simulated.payload_bytes()[worker];
      EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), sent.numel());
      EXPECT_EQ(sent.numel() % 64, 0);
      const auto header = wire::read_header(
          {reinterpret_cast<const std::byte*>(sent.const_data_ptr<uint8_t>()), 32});
      EXPECT_LE(sent.numel(), needed_before + needed_before / 4 + 256);
      largest_needed = std::max(largest_needed, static_cast<int64_t>(header.needed));
    }
    needed_before = largest_needed;
  }
}

// A sparse gradient makes for small payloads, the full one after it for an overflow.
TEST(Capacity, OverflowsAndRecovers) {
  const Shapes shapes = {{64, 48}};
  SimulatedWorld simulated("adacomp", {}, 2, shapes);
  auto gradients = gradients_of_step(2, 0, shapes);
  std::vector<size_t> rounds;
  for (int step = 0; step < 6; ++step) {
    auto fed = clone(gradients);
    if (step < 3) {
      for (Tensors& of_worker : fed) of_worker[0].narrow(0, 1, 63).zero_();
    }
    const auto results = simulated.step(fed);
    rounds.push_back(simulated.sent().size() / 2);
    EXPECT_TRUE(same_bits(results[0][0], results[1][0]));
  }
  EXPECT_EQ(rounds, (std::vector<size_t>{1, 1, 1, 2, 1, 1}));
}

TEST_P(Gathered, ZeroGradientAbstains) {
  const Shapes shapes = {{64, 48}, {300, 500}};
  SimulatedWorld simulated = world(2, shapes);
  simulated.step(gradients_of_step(2, 0, shapes));
  const auto before = residuals(simulated, 2, 2);
  auto gradients = gradients_of_step(2, 1, shapes);
  for (Tensors& of_worker : gradients) of_worker[0].fill_(-0.0);
  gradients[1][1].zero_();
  const auto results = simulated.step(gradients);
  EXPECT_FALSE(results[0][0].any().item<bool>());
  EXPECT_TRUE(results[0][1].any().item<bool>());
  EXPECT_TRUE(same_bits(simulated.residual(0, 0), before[0][0]));
  EXPECT_TRUE(same_bits(simulated.residual(1, 1), before[1][1]));
  EXPECT_FALSE(same_bits(simulated.residual(0, 1), before[0][1]));
}

// Two steps, one with `bad` in two parameters, on one worker each, and one more.
void expect_only_one_spoilt(SimulatedWorld simulated, const Shapes& shapes, float bad) {
  for (int step = 0; step < 2; ++step) simulated.step(gradients_of_step(3, step, shapes));
  const auto before = residuals(simulated, 3, shapes.size());
  auto gradients = gradients_of_step(3, 2, shapes);
  double units[2];
  for (int i : {0, 1}) units[i] = gradients[0][i].abs().max().item<double>();
  gradients[1][0].view(-1)[3071] = bad;
  gradients[2][1].view(-1)[gradients[2][1].numel() / 3] = bad;
  const auto results = simulated.step(gradients);
  for (int worker = 0; worker < 3; ++worker) {
    for (int i : {0, 1}) {
      EXPECT_TRUE(results[worker][i].isnan().all().item<bool>());
      EXPECT_TRUE(simulated.residual(worker, i).allclose(before[worker][i], 1e-6, 1e-6 * units[i]))
          << "worker " << worker << ", parameter " << i;
    }
    EXPECT_TRUE(results[worker][2].isfinite().all().item<bool>());
  }
  const auto next = simulated.step(gradients_of_step(3, 3, shapes));
  for (const at::Tensor& result : next[0]) EXPECT_TRUE(result.isfinite().all().item<bool>());
}

TEST_P(Gathered, NonFiniteSpoilsTheStepAndNothingElse) {
  const Shapes shapes = {{64, 48}, {300, 500}, {7}};
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    expect_only_one_spoilt(world(3, shapes), shapes, bad);
    expect_only_one_spoilt(world(3, shapes, /*error_feedback=*/false), shapes, bad);
  }
  // Large enough for several threads.
  const Shapes large = {{64, 48}, {1500, 1000}, {7}};
  expect_only_one_spoilt(world(3, large), large, infinity);
}

TEST_P(Gathered, AtenPathDoesTheSame) {
  const auto run = [&](bool error_feedback) {
    SimulatedWorld simulated = world(3, kShapes, error_feedback);
    std::vector<Tensors> history;
    for (int step = 0; step < 5; ++step) {
      auto gradients = gradients_of_step(3, step, kShapes);
      if (step == 1) gradients[1][4].zero_();
      if (step == 2) gradients[0][3].view(-1)[5] = std::numeric_limits<float>::infinity();
      history.push_back(simulated.step(gradients)[1]);
      for (size_t i = 0; i < kShapes.size(); ++i) {
        history.back().push_back(simulated.residual(1, i));
      }
      for (const at::Tensor& sent : simulated.sent()) history.back().push_back(sent);
    }
    return history;
  };
  for (const bool error_feedback : {true, false}) {
    const auto kernels = run(error_feedback);
    const ForceCode forced(aten_code());
    const auto aten = run(error_feedback);
    for (size_t step = 0; step < kernels.size(); ++step) {
      for (size_t i = 0; i < kernels[step].size(); ++i) {
        EXPECT_TRUE(same_bits(aten[step][i], kernels[step][i])) << step << " " << i;
      }
    }
  }
}

TEST_P(Gathered, DoesNotDependOnTheNumberOfThreads) {
  const Shapes shapes = {{1500, 2000}};
  const auto run = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    SimulatedWorld simulated = world(2, shapes);
    Tensors history;
    for (int step = 0; step < 3; ++step) {
      history.push_back(simulated.step(gradients_of_step(2, step, shapes))[0][0]);
      history.push_back(simulated.sent()[1]);
      history.push_back(simulated.residual(1, 0));
    }
    at::set_num_threads(before);
    return history;
  };
  const Tensors one = run(1);
  for (const int threads : {2, 3, 5}) {
    const Tensors many = run(threads);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], many[i])) << i;
  }
}

TEST_P(Gathered, HalfPrecisionGradients) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    SimulatedWorld simulated = world(2, kShapes);
    SimulatedWorld in_fp32 = world(2, kShapes);
    for (int step = 0; step < 3; ++step) {
      auto halves = gradients_of_step(2, step, kShapes);
      for (Tensors& of_worker : halves) {
        for (at::Tensor& gradient : of_worker) gradient = gradient.to(type);
      }
      auto wide = halves;
      for (Tensors& of_worker : wide) {
        for (at::Tensor& gradient : of_worker) gradient = gradient.to(at::kFloat);
      }
      const auto results = simulated.step(halves);
      const auto expected = in_fp32.step(wide);
      for (size_t i = 0; i < kShapes.size(); ++i) {
        EXPECT_EQ(results[1][i].scalar_type(), type);
        EXPECT_TRUE(results[1][i].equal(expected[1][i].to(type)));
        EXPECT_TRUE(same_bits(simulated.residual(0, i), in_fp32.residual(0, i)));
      }
    }
  }
}

TEST_P(Gathered, TakesLayoutsThatAreNotContiguous) {
  const Shapes shapes = {{32, 4, 3, 3}};
  SimulatedWorld plain = world(2, shapes);
  SimulatedWorld strided = world(2, shapes);
  for (int step = 0; step < 3; ++step) {
    const auto gradients = gradients_of_step(2, step, shapes);
    auto channels_last = gradients;
    for (Tensors& of_worker : channels_last) {
      of_worker[0] = of_worker[0].contiguous(at::MemoryFormat::ChannelsLast);
    }
    EXPECT_TRUE(strided.step(channels_last)[0][0].equal(plain.step(gradients)[0][0]));
    EXPECT_TRUE(strided.residual(1, 0).equal(plain.residual(1, 0)));
  }
}

// Values at the ends of fp32's range stay finite, and both paths and all workers agree on them.
TEST_P(Gathered, SpecialValues) {
  const Shapes shapes = {{64, 48}, {7}};
  const auto filled = [&](float value) {
    std::vector<Tensors> gradients(2);
    for (Tensors& of_worker : gradients) {
      for (const auto& shape : shapes) of_worker.push_back(at::full(shape, value));
    }
    return gradients;
  };
  for (const float value : {1.0F, -1.0F, 1e30F, 1e-30F, 1e-42F, 3e38F}) {
    SimulatedWorld simulated = world(2, shapes);
    for (int step = 0; step < 3; ++step) {
      auto gradients = filled(value);
      // 3e38 twice would overflow, which counts as not finite.
      if (value == 3e38F && step > 0) gradients = filled(-value);
      gradients[1][0].narrow(0, 0, 8).fill_(-0.0);
      const auto results = simulated.step(gradients);
      for (size_t i = 0; i < shapes.size(); ++i) {
        EXPECT_TRUE(results[0][i].isfinite().all().item<bool>()) << value;
        EXPECT_TRUE(same_bits(results[0][i], results[1][i])) << value;
        EXPECT_TRUE(simulated.residual(0, i).isfinite().all().item<bool>()) << value;
      }
    }
  }
}

TEST_P(Gathered, EqualInputsGiveEqualBytes) {
  SimulatedWorld first = world(2, kShapes);
  SimulatedWorld second = world(2, kShapes);
  for (int step = 0; step < 3; ++step) {
    first.step(gradients_of_step(2, step, kShapes));
    second.step(gradients_of_step(2, step, kShapes));
    for (size_t i = 0; i < first.sent().size(); ++i) {
      EXPECT_TRUE(first.sent()[i].equal(second.sent()[i]));
    }
  }
}

}  // namespace
}  // namespace gradwire
