// What must hold for every method in the registry, in worlds of several sizes, with buckets of
// several sizes. A new method is tested here without a line of test code.

#include <gtest/gtest.h>

#include "gradient_feeder.h"
#include "methods/registry.h"
#include "world.h"

namespace gradwire {
namespace {

const std::vector<std::vector<int64_t>> kShapes = {
    {},               // a scalar
    {1},              // one element
    {7},              // a bias
    {0},              // empty
    {64, 48},         // a matrix worth compressing
    {3, 0},           // an empty matrix
    {1, 1},           // a matrix of one element
    {32, 4, 3, 3},    // a convolution
    {8, 4, 2, 2, 2},  // a convolution in space
    {16, 6, 8},       // a convolution in time
    {200, 3},         // tall: not worth compressing at rank 4
    {5, 400},         // wide
};

struct Setting {
  std::string method;
  int workers;
  double bucket_cap_mb;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const MethodDescription& method : methods()) {
    for (const int workers : {1, 2, 3, 4, 8}) {
      for (const double cap : {0.01, 25.0}) settings.push_back({method.name, workers, cap});
    }
  }
  return settings;
}

std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return info.param.method + "_" + std::to_string(info.param.workers) + "_workers_" +
         (info.param.bucket_cap_mb < 1 ? "many_buckets" : "one_bucket");
}

class EveryMethod : public testing::TestWithParam<Setting> {
 protected:
  auto make_ddp(const Group& group,
                const std::vector<std::vector<int64_t>>& shapes = kShapes) const {
    return DistributedDataParallel<GradientFeeder>(
        GradientFeeder(shapes), group, {.method = GetParam().method},
        {.bucket_cap_mb = GetParam().bucket_cap_mb,
         .first_bucket_cap_mb = std::min(1.0, GetParam().bucket_cap_mb)});
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryMethod, testing::ValuesIn(all_settings()), name_of);

// The results of all workers in all steps: [worker][step][parameter].
using History = std::vector<std::vector<Tensors>>;

TEST_P(EveryMethod, GivesAllWorkersTheSameBits) {
  constexpr int kSteps = 4;
  const History history =
      run_world<std::vector<Tensors>>(GetParam().workers, [&](const Group& group) {
        auto ddp = make_ddp(group);
        std::vector<Tensors> results;
        for (int step = 0; step < kSteps; ++step) {
          results.push_back(results_of_step(ddp, gradients_for(group->getRank(), step, kShapes)));
        }
        return results;
      });
  for (int worker = 1; worker < GetParam().workers; ++worker) {
    for (int step = 0; step < kSteps; ++step) {
      for (size_t i = 0; i < kShapes.size(); ++i) {
        EXPECT_TRUE(history[worker][step][i].equal(history[0][step][i]))
            << "worker " << worker << ", step " << step << ", parameter " << i;
      }
    }
  }
}

// N result + sum of the changes of the residuals = sum of the gradients, at every step, up to what
// is rounded off and nobody keeps.
TEST_P(EveryMethod, DropsNothing) {
  constexpr int kSteps = 6;
  struct Record {
    std::vector<Tensors> results;
    std::vector<Tensors> residuals;  // zeros where there is none
  };
  const auto records = run_world<Record>(GetParam().workers, [&](const Group& group) {
    auto ddp = make_ddp(group);
    Record record;
    for (int step = 0; step < kSteps; ++step) {
      record.results.push_back(
          results_of_step(ddp, gradients_for(group->getRank(), step, kShapes)));
      const State state = ddp.state();
      Tensors residuals;
      for (size_t i = 0; i < kShapes.size(); ++i) {
        const auto found = state.find("worker" + std::to_string(group->getRank()) + "/weight" +
                                      std::to_string(i) + "/residual");
        residuals.push_back(found == state.end() ? at::zeros(kShapes[i])
                                                 : found->second.toTensor().view(kShapes[i]));
      }
      record.residuals.push_back(residuals);
    }
    return record;
  });
  const int workers = GetParam().workers;
  const Facts facts = facts_of(find_method(GetParam().method));
  const double tolerance = 1e-4 + 5 * facts.rounding * workers;
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < kShapes.size(); ++i) {
      at::Tensor left = records[0].results[step][i].to(at::kDouble) * workers;
      at::Tensor right = at::zeros(kShapes[i], at::kDouble);
      for (int worker = 0; worker < workers; ++worker) {
        left = left + records[worker].residuals[step][i];
        if (step > 0) left = left - records[worker].residuals[step - 1][i];
        right = right + gradient_for(worker, step, i, kShapes[i]);
      }
      EXPECT_TRUE(left.allclose(right, 1e-4, tolerance))
          << "step " << step << ", parameter " << i << ": off by "
          << (left - right).abs().max().item<double>();
    }
  }
}

TEST_P(EveryMethod, CountsWhatItSends) {
  const auto all_stats = run_world<Stats>(GetParam().workers, [&](const Group& group) {
    auto ddp = make_ddp(group);
    for (int step = 0; step < 3; ++step) {
      results_of_step(ddp, gradients_for(group->getRank(), step, kShapes));
    }
    return ddp.stats();
  });
  int64_t elements = 0;
  for (const auto& shape : kShapes) elements += c10::multiply_integers(shape);
  for (const Stats& stats : all_stats) {
    EXPECT_EQ(stats.method, GetParam().method);
    EXPECT_EQ(stats.steps, 3);
    EXPECT_EQ(stats.gradient_bytes, 3 * 4 * elements);
    EXPECT_GT(stats.payload_bytes, 0);
    if (GetParam().workers == 1) {
      EXPECT_EQ(stats.sent_bytes, 0);
    } else {
      EXPECT_GT(stats.sent_bytes, 0);
    }
    EXPECT_NEAR(static_cast<double>(stats.dense_bytes),
                2.0 * (GetParam().workers - 1) / GetParam().workers * stats.gradient_bytes,
                3.0 * kShapes.size());
  }
}

// What a method keeps of the first parameter from step to step.
std::map<std::string, at::Tensor> kept(const State& state) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [key, value] : state) {
    if (key.find("/weight0/") != std::string::npos && value.isTensor()) {
      tensors[key] = value.toTensor().clone();
    }
  }
  return tensors;
}

// One bad gradient on one worker spoils the step on all of them, and nothing after it.
TEST_P(EveryMethod, IsNotPoisonedByInfinity) {
  const std::vector<std::vector<int64_t>> shapes = {{64, 48}, {7}};
  const auto finite = run_world<bool>(GetParam().workers, [&](const Group& group) {
    auto ddp = make_ddp(group, shapes);
    const int worker = group->getRank();
    bool as_expected = true;
    for (int step = 0; step < 6; ++step) {
      Tensors gradients = gradients_for(worker, step, shapes);
      const bool bad = step == 2 || step == 3;
      if (bad && worker == group->getSize() - 1) {
        gradients[0][5][6] = std::numeric_limits<float>::infinity();
      }
      const auto before = kept(ddp.state());
      const Tensors results = results_of_step(ddp, gradients);
      for (const auto& [key, value] : kept(ddp.state())) {
        as_expected = as_expected && (!bad || at::allclose(value, before.at(key), 1e-4, 1e-5));
      }
      as_expected = as_expected && at::isfinite(results[0]).all().item<bool>() == !bad;
      as_expected = as_expected && at::isfinite(results[1]).all().item<bool>();
      for (const auto& [key, value] : ddp.state()) {
        if (value.isTensor()) {
          as_expected = as_expected && at::isfinite(value.toTensor()).all().item<bool>();
        }
      }
    }
    return as_expected;
  });
  for (const bool as_expected : finite) EXPECT_TRUE(as_expected);
}

}  // namespace
}  // namespace gradwire
