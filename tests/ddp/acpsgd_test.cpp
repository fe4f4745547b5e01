#include <gtest/gtest.h>

#include "../kernels/without_bf16.h"
#include "gradient_feeder.h"
#include "world.h"

namespace gradwire {
namespace {

const std::vector<std::vector<int64_t>> kMatrices = {{48, 30}, {20, 3, 4, 4}, {9}, {12, 100}};

std::string key(int worker, size_t parameter, const std::string& name) {
  return "worker" + std::to_string(worker) + "/weight" + std::to_string(parameter) + "/" + name;
}

// The method as its definition reads, for all workers of one parameter at once and in double.
class Reference {
 public:
  Reference(int workers, at::Tensor q) : q_(q.to(at::kDouble)), residuals_(workers) {}

  at::Tensor step(const Tensors& gradients) {
    ++steps_;
    const bool p_step = steps_ % 2 == 1;
    at::Tensor& fixed = p_step ? q_ : p_;
    fixed = std::get<0>(at::linalg_qr(fixed));
    at::Tensor sum;
    for (size_t worker = 0; worker < gradients.size(); ++worker) {
      at::Tensor target = gradients[worker].to(at::kDouble);
      if (residuals_[worker].defined()) target = target + residuals_[worker];
      const at::Tensor own = p_step ? target.mm(q_) : target.t().mm(p_);
      residuals_[worker] = target - (p_step ? own.mm(q_.t()) : p_.mm(own.t()));
      sum = sum.defined() ? sum + own : own;
    }
    (p_step ? p_ : q_) = sum;
    return p_.mm(q_.t()) / static_cast<double>(gradients.size());
  }
  const at::Tensor& residual(int worker) const { return residuals_[worker]; }

 private:
  int steps_ = 0;
  at::Tensor p_;
  at::Tensor q_;
  Tensors residuals_;
};

at::Tensor as_matrix(const at::Tensor& tensor) { return tensor.reshape({tensor.size(0), -1}); }

class Acpsgd : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, Acpsgd, testing::Values(1, 2, 3, 4, 8));

TEST_P(Acpsgd, FollowsItsDefinitionStepByStep) {
  const kernels::WithoutBf16 close_to_double;
  constexpr int kSteps = 20;
  const int workers = GetParam();
  struct Record {
    State initial;
    std::vector<Tensors> results;
    State last;
  };
  const auto records = run_world<Record>(workers, [&](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(kMatrices), group,
                                {.method = "acpsgd", .rank = 3, .min_ratio = 1, .dtype = "fp32"});
    Record record{.initial = ddp.state(), .results = {}, .last = {}};
    for (int step = 0; step < kSteps; ++step) {
      record.results.push_back(
          results_of_step(ddp, gradients_for(group->getRank(), step, kMatrices)));
    }
    record.last = ddp.state();
    return record;
  });

  for (const size_t parameter : {0UL, 1UL, 3UL}) {
    Reference reference(workers, records[0].initial.at(key(0, parameter, "q")).toTensor());
    for (int step = 0; step < kSteps; ++step) {
      Tensors gradients;
      for (int worker = 0; worker < workers; ++worker) {
        gradients.push_back(as_matrix(gradient_for(worker, step, parameter, kMatrices[parameter])));
      }
      const at::Tensor expected = reference.step(gradients);
      const at::Tensor actual = as_matrix(records[0].results[step][parameter]).to(at::kDouble);
      ASSERT_TRUE(actual.allclose(expected, 1e-3, 1e-3))
          << "parameter " << parameter << ", step " << step << ": off by "
          << (actual - expected).abs().max().item<double>();
    }
    for (int worker = 0; worker < workers; ++worker) {
      const at::Tensor residual =
          records[worker].last.at(key(worker, parameter, "residual")).toTensor();
      EXPECT_TRUE(residual.to(at::kDouble).allclose(reference.residual(worker), 1e-3, 1e-3));
    }
  }
}

// Under constant gradients, what has been sent falls behind what was to be sent by no more than the
// residual, which stays bounded: so the mean of the results approaches the mean gradient like 1/T.
TEST_P(Acpsgd, ConvergesLikeOneOverT) {
  const std::vector<std::vector<int64_t>> shapes = {{40, 30}};
  const int workers = GetParam();
  const auto errors = run_world<std::vector<double>>(workers, [&](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(shapes), group, {.method = "acpsgd", .rank = 4});
    at::Tensor mean = at::zeros(shapes[0]);
    for (int worker = 0; worker < workers; ++worker) {
      mean += gradient_for(worker, 0, 0, shapes[0]) / workers;
    }
    at::Tensor sum = at::zeros(shapes[0]);
    std::vector<double> distances;
    for (int step = 1; step <= 400; ++step) {
      sum += results_of_step(ddp, gradients_for(group->getRank(), 0, shapes))[0];
      if (step == 100 || step == 400) {
        distances.push_back((sum / step - mean).norm().item<double>() / mean.norm().item<double>());
      }
    }
    return distances;
  });
  for (const std::vector<double>& distances : errors) {
    EXPECT_LT(distances[0], 0.2);
    EXPECT_LT(distances[1], distances[0] / 2.5)
        << "four times the steps, a quarter of the distance";
  }
}

TEST(AcpsgdState, BelongsToTheParameterAcrossTheBucketRebuild) {
  const std::vector<std::vector<int64_t>> shapes = {{64, 32}, {32, 64}, {48, 32}, {64, 32}};
  // Buckets of one parameter each, in an order that the rebuild turns around; against one bucket.
  const auto run = [&](double cap) {
    return run_world<std::vector<Tensors>>(2, [&](const Group& group) {
      DistributedDataParallel ddp(GradientFeeder(shapes), group,
                                  {.method = "acpsgd", .rank = 4, .dtype = "fp32"},
                                  {.bucket_cap_mb = cap, .first_bucket_cap_mb = cap});
      std::vector<Tensors> results;
      for (int step = 0; step < 6; ++step) {
        results.push_back(results_of_step(ddp, gradients_for(group->getRank(), step, shapes)));
      }
      return results;
    })[0];
  };
  const auto small = run(0.001);
  const auto large = run(25);
  for (size_t step = 0; step < small.size(); ++step) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_TRUE(small[step][i].equal(large[step][i])) << "step " << step << ", parameter " << i;
    }
  }
}

TEST(AcpsgdState, StartsAlikeEverywhere) {
  const auto run = [] {
    return run_world<at::Tensor>(2, [](const Group& group) {
      DistributedDataParallel ddp(GradientFeeder(kMatrices), group, {.method = "acpsgd"});
      return ddp.state().at(key(group->getRank(), 0, "q")).toTensor();
    });
  };
  const auto first = run();
  EXPECT_TRUE(first[0].equal(first[1]));
  EXPECT_TRUE(first[0].equal(run()[0]));
}

TEST(AcpsgdState, LeavesTheUsersRandomNumbersAlone) {
  torch::manual_seed(5);
  const at::Tensor undisturbed = torch::rand({1});
  torch::manual_seed(5);
  run_world<int>(1, [](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(kMatrices), group, {.method = "acpsgd"});
    results_of_step(ddp, gradients_for(0, 0, kMatrices));
    return 0;
  });
  EXPECT_TRUE(torch::rand({1}).equal(undisturbed));
}

TEST(AcpsgdUnused, KeepsItsResidualAndSendsNothing) {
  const std::vector<std::vector<int64_t>> shapes = {{40, 30}, {40, 30}};
  run_world<int>(2, [&](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(shapes), group, {.method = "acpsgd"},
                                {.find_unused_parameters = true});
    const int worker = group->getRank();
    results_of_step(ddp, gradients_for(worker, 0, shapes));
    const at::Tensor before = ddp.state().at(key(worker, 1, "residual")).toTensor();
    Tensors gradients = gradients_for(worker, 1, shapes);
    gradients[1] = at::Tensor();
    EXPECT_FALSE(results_of_step(ddp, gradients)[1].defined());
    EXPECT_TRUE(ddp.state().at(key(worker, 1, "residual")).toTensor().equal(before));
    EXPECT_GT(before.norm().item<double>(), 0);
    return 0;
  });
}

}  // namespace
}  // namespace gradwire
