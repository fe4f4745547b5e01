#include <gtest/gtest.h>

#include "gradients.h"
#include "methods/device_code.h"
#include "simulated_world.h"
#include "threads.h"

namespace gradwire {
namespace {

// What ALGORITHMS says, worker by worker, in double.
class SignReference {
 public:
  SignReference(int workers, const Shapes& shapes) : residuals_(workers) {
    for (auto& residuals : residuals_) {
      for (const auto& shape : shapes) residuals.push_back(at::zeros(shape, at::kDouble));
    }
  }

  std::vector<at::Tensor> step(const Gradients& gradients) {
    std::vector<at::Tensor> results;
    const size_t workers = gradients.size();
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      at::Tensor sum = at::zeros(gradients[0][i].sizes(), at::kDouble);
      for (size_t worker = 0; worker < workers; ++worker) {
        at::Tensor& residual = residuals_[worker][i];
        const at::Tensor gradient = gradients[worker][i].to(at::kDouble);
        if (!gradient.any().item<bool>()) continue;
        const at::Tensor total = gradient + residual;
        const at::Tensor sent = total.abs().mean() * (2 * (total >= 0).to(at::kDouble) - 1);
        sum += sent;
        residual = total - sent;
      }
      results.push_back(sum / static_cast<double>(workers));
    }
    return results;
  }

  const at::Tensor& residual(int worker, size_t parameter) const {
    return residuals_[worker][parameter];
  }

 private:
  Gradients residuals_;
};

at::Tensor sum_over_workers(const Gradients& gradients, size_t parameter) {
  at::Tensor sum = at::zeros(gradients[0][parameter].sizes(), at::kDouble);
  for (const auto& worker : gradients) sum += worker[parameter];
  return sum;
}

Gradients residuals_of(const SimulatedWorld& world, int workers, size_t parameters) {
  Gradients residuals(workers);
  for (int worker = 0; worker < workers; ++worker) {
    for (size_t i = 0; i < parameters; ++i) residuals[worker].push_back(world.residual(worker, i));
  }
  return residuals;
}

const OptionMap kOneScale = {{"block", int64_t{0}}};

class SignFeedback : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, SignFeedback, testing::Values(1, 2, 3, 4));

TEST_P(SignFeedback, FollowsTheReference) {
  const int workers = GetParam();
  SimulatedWorld world("sign", kOneScale, workers, kShapes);
  SignReference reference(workers, kShapes);
  for (int step = 0; step < 12; ++step) {
    const Gradients gradients = random_gradients(workers, step);
    const Gradients results = world.step(gradients);
    const std::vector<at::Tensor> expected = reference.step(gradients);
    expect_alike(results);
    for (size_t i = 0; i < kShapes.size(); ++i) {
      // An element whose G is within rounding of zero may go either way; the law holds all the
      // same.
      EXPECT_LT(distance(results[0][i], expected[i]), 1e-5) << "step " << step << ", " << i;
      for (int worker = 0; worker < workers; ++worker) {
        EXPECT_LT(
            (world.residual(worker, i) - reference.residual(worker, i)).abs().max().item<double>(),
            1e-5);
      }
    }
  }
}

TEST_P(SignFeedback, DropsNothing) {
  const int workers = GetParam();
  SimulatedWorld world("sign", kOneScale, workers, kShapes);
  Gradients before = residuals_of(world, workers, kShapes.size());
  for (int step = 0; step < 10; ++step) {
    const Gradients gradients = random_gradients(workers, step);
    const Gradients results = world.step(gradients);
    const Gradients after = residuals_of(world, workers, kShapes.size());
    for (size_t i = 0; i < kShapes.size(); ++i) {
      const at::Tensor law = results[0][i].to(at::kDouble) * workers + sum_over_workers(after, i) -
                             sum_over_workers(before, i);
      EXPECT_LT((law - sum_over_workers(gradients, i)).abs().max().item<double>(), 2e-5);
    }
    before = after;
  }
}

// The mean of T results is off by the residual over T. For a few elements the residual soon stops
// growing, and the error falls like 1/T. For thousands of normally distributed ones it was still
// growing after 20,000 steps, and the error fell about like 1 over the square root of T.
TEST_P(SignFeedback, ConvergesUnderConstantGradients) {
  const int workers = GetParam();
  const Shapes shapes = {{7}, {64, 48}};
  SimulatedWorld world("sign", kOneScale, workers, shapes);
  const Gradients gradients = random_gradients(workers, 0, shapes);
  std::vector<at::Tensor> sums = {at::zeros({7}, at::kDouble), at::zeros({64, 48}, at::kDouble)};
  const auto error_after = [&](size_t i, int steps) {
    const at::Tensor mean = sum_over_workers(gradients, i) / workers;
    return (sums[i] / steps - mean).norm().item<double>() / mean.norm().item<double>();
  };
  std::vector<double> early;
  for (int step = 1; step <= 800; ++step) {
    const Gradients results = world.step(gradients);
    for (size_t i = 0; i < shapes.size(); ++i) sums[i] += results[0][i];
    if (step == 50) early = {error_after(0, step), error_after(1, step)};
  }
  EXPECT_LT(error_after(0, 800), early[0] / 8);
  EXPECT_LT(error_after(1, 800), early[1] / 3);
}

TEST_P(SignFeedback, AbstainsWithAZeroGradient) {
  const int workers = GetParam();
  SimulatedWorld world("sign", kOneScale, workers, kShapes);
  SignReference reference(workers, kShapes);
  for (int step = 0; step < 4; ++step) {
    Gradients gradients = random_gradients(workers, step);
    const bool everybody = step == 2;
    if (step > 0) gradients[0][3].zero_();
    if (everybody) {
      for (auto& worker : gradients) worker[5].fill_(-0.0F);
    }
    const Gradients before = residuals_of(world, workers, kShapes.size());
    const Gradients results = world.step(gradients);
    const std::vector<at::Tensor> expected = reference.step(gradients);
    expect_alike(results);
    EXPECT_LT(distance(results[0][3], expected[3]), 1e-5);
    if (step > 0) {
      EXPECT_TRUE(same_bits(world.residual(0, 3), before[0][3]));
    }
    if (everybody) {
      EXPECT_TRUE(same_bits(results[0][5], at::zeros({300, 500})));
      EXPECT_TRUE(same_bits(world.residual(workers - 1, 5), before[workers - 1][5]));
    }
  }
}

TEST_P(SignFeedback, TakesBackAStepThatIsNotFinite) {
  const int workers = GetParam();
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    SimulatedWorld world("sign", kOneScale, workers, kShapes);
    for (int step = 0; step < 6; ++step) {
      Gradients gradients = random_gradients(workers, step);
      const bool broken = step == 0 || step == 2 || step == 3;
      // Late in a parameter of several blocks and pieces, and in one of a single element.
      if (broken) gradients[workers - 1][5].view(-1)[140000] = bad;
      if (broken) gradients[workers - 1][0].fill_(bad);
      const Gradients before = residuals_of(world, workers, kShapes.size());
      const Gradients results = world.step(gradients);
      expect_alike(results);
      for (size_t i = 0; i < kShapes.size(); ++i) {
        const bool hit = broken && (i == 0 || i == 5);
        EXPECT_EQ(at::isnan(results[0][i]).all().item<bool>(), hit);
        EXPECT_EQ(at::isfinite(results[0][i]).all().item<bool>(), !hit);
        for (int worker = 0; worker < workers; ++worker) {
          const at::Tensor after = world.residual(worker, i);
          EXPECT_TRUE(at::isfinite(after).all().item<bool>());
          if (hit) {
            EXPECT_LT((after - before[worker][i]).abs().max().item<double>(), 1e-6);
          }
        }
      }
    }
  }
}

TEST_P(SignFeedback, DoesTheSameInAtenOps) {
  const int workers = GetParam();
  SimulatedWorld by_kernel("sign", kOneScale, workers, kShapes);
  const ForceCode forced(aten_code());
  SimulatedWorld by_aten("sign", kOneScale, workers, kShapes);
  for (int step = 0; step < 6; ++step) {
    Gradients gradients = random_gradients(workers, step);
    if (step == 2) gradients[0][4].zero_();
    if (step == 3) gradients[workers - 1][3][0][0] = kInfinity;
    const Gradients expected = by_kernel.step(gradients);
    const Gradients results = by_aten.step(gradients);
    expect_alike(results);
    EXPECT_EQ(by_aten.payload_bytes(), by_kernel.payload_bytes());
    for (size_t i = 0; i < kShapes.size(); ++i) {
      if (step == 3 && i == 3) {
        EXPECT_TRUE(at::isnan(results[0][i]).all().item<bool>());
      } else {
        EXPECT_LT(distance(results[0][i], expected[0][i]), 1e-5);
      }
      EXPECT_LT((by_aten.residual(0, i) - by_kernel.residual(0, i)).abs().max().item<double>(),
                1e-5);
    }
  }
}

TEST_P(SignFeedback, TakesSpecialValues) {
  const int workers = GetParam();
  SimulatedWorld world("sign", kOneScale, workers, kSpecialShapes);
  SignReference reference(workers, kSpecialShapes);
  const Gradients gradients = special_gradients(workers);
  for (int step = 0; step < 3; ++step) {
    const Gradients results = world.step(gradients);
    const std::vector<at::Tensor> expected = reference.step(gradients);
    expect_alike(results);
    for (size_t i = 0; i < kSpecialShapes.size(); ++i) {
      EXPECT_LT(distance(results[0][i], expected[i]), 1e-5) << "step " << step << ", " << i;
    }
  }
}

// Their sum overflows, so the step is as good as one with an infinity in it.
TEST(SignFeedbackOverflow, OfTheSumOfScalesIsNotFinite) {
  SimulatedWorld world("sign", kOneScale, 2, {{100}});
  const Gradients results = world.step({{at::full({100}, 3e38F)}, {at::full({100}, 3e38F)}});
  EXPECT_TRUE(at::isnan(results[0][0]).all().item<bool>());
  EXPECT_TRUE(same_bits(world.residual(0, 0), at::zeros({100})));
}

TEST_P(SignFeedback, LeavesNothingBehindWithoutErrorFeedback) {
  const int workers = GetParam();
  for (const bool aten : {false, true}) {
    std::optional<ForceCode> forced;
    if (aten) forced.emplace(aten_code());
    SimulatedWorld world("sign", {{"block", int64_t{0}}, {"error_feedback", false}}, workers,
                         kShapes);
    for (int step = 0; step < 4; ++step) {
      Gradients gradients = random_gradients(workers, step);
      if (step == 2) gradients[0][5].view(-1)[70000] = kNan;
      const Gradients results = world.step(gradients);
      const std::vector<at::Tensor> expected = SignReference(workers, kShapes).step(gradients);
      expect_alike(results);
      for (size_t i = 0; i < kShapes.size(); ++i) {
        if (step == 2 && i == 5) {
          EXPECT_TRUE(at::isnan(results[0][i]).all().item<bool>());
        } else {
          EXPECT_LT(distance(results[0][i], expected[i]), 1e-5);
        }
        EXPECT_FALSE(world.state(0, i).residual().defined());
        EXPECT_TRUE(world.state(0, i).tensors().empty());
      }
    }
  }
}

TEST_P(SignFeedback, ResumesExactlyFromItsTensors) {
  const int workers = GetParam();
  SimulatedWorld first("sign", kOneScale, workers, kShapes);
  for (int step = 0; step < 3; ++step) first.step(random_gradients(workers, step));
  SimulatedWorld second("sign", kOneScale, workers, kShapes);
  SimulatedWorld undisturbed("sign", kOneScale, workers, kShapes);
  for (int step = 0; step < 3; ++step) undisturbed.step(random_gradients(workers, step));
  second.step(random_gradients(workers, 99));  // overwritten by what is loaded
  for (int worker = 0; worker < workers; ++worker) {
    for (size_t i = 0; i < kShapes.size(); ++i) {
      SimulatedWorld::load(second.state(worker, i), first.state(worker, i));
    }
  }
  for (int step = 3; step < 6; ++step) {
    const Gradients gradients = random_gradients(workers, step);
    const Gradients expected = undisturbed.step(gradients);
    const Gradients results = second.step(gradients);
    for (size_t i = 0; i < kShapes.size(); ++i) {
      EXPECT_TRUE(same_bits(results[0][i], expected[0][i]));
    }
  }
}

TEST(SignFeedbackPayload, HasOneBitPerElementAndCountsAllOfIt) {
  SimulatedWorld world("sign", kOneScale, 3, kShapes);
  Gradients gradients = random_gradients(3, 0);
  gradients[1][5].zero_();  // a shorter record
  world.step(gradients);
  int64_t expected = 32;
  for (const at::Tensor& gradient : gradients[0]) expected += 1 + 4 + (gradient.numel() + 7) / 8;
  ASSERT_EQ(world.sent().size(), 3U);
  for (int worker = 0; worker < 3; ++worker) {
    int64_t counted = 0;
    for (const int64_t bytes : world.payload_bytes()[worker]) counted += bytes;
    EXPECT_EQ(counted, expected);
    EXPECT_EQ(world.sent()[worker].numel(), expected);
  }
}

TEST(SignFeedbackPayload, DoesNotDependOnTheNumberOfThreads) {
  expect_independent_of_threads("sign", kOneScale);
}

TEST(SignFeedbackLayout, TakesHalvesAndAnyStrides) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Shapes shapes = {{7}, {8, 4, 3, 3}};
    SimulatedWorld world("sign", kOneScale, 2, shapes);
    SignReference reference(2, shapes);
    for (int step = 0; step < 4; ++step) {
      Gradients gradients = random_gradients(2, step, shapes);
      for (auto& worker : gradients) {
        worker[0] = worker[0].to(type);
        worker[1] = worker[1].contiguous(at::MemoryFormat::ChannelsLast);
        if (step == 3) worker[1][0][0][0][0] = kNan;
      }
      const Gradients results = world.step(gradients);
      expect_alike(results);
      EXPECT_EQ(results[0][0].scalar_type(), type);
      if (step == 3) {
        EXPECT_TRUE(at::isnan(results[0][1]).all().item<bool>());
        continue;
      }
      const std::vector<at::Tensor> expected = reference.step(gradients);
      EXPECT_LT(distance(results[0][0], expected[0]), 1e-2);
      EXPECT_LT(distance(results[0][1], expected[1]), 1e-5);
    }
  }
}

}  // namespace
}  // namespace gradwire
