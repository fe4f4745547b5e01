#include "gradwire/compressor.h"

#include <gtest/gtest.h>

#include "gradient_feeder.h"
#include "world.h"

namespace gradwire {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;
const Shapes kVariousShapes = {{24, 16}, {8, 3, 3, 3}, {16}, {}, {0}};

std::vector<std::string> all_methods() {
  std::vector<std::string> names;
  for (const MethodDescription& method : methods()) {
    if (method.name != "auto") names.push_back(method.name);
  }
  return names;
}

Compressor::Gradients named(const Tensors& gradients) {
  Compressor::Gradients named;
  for (size_t i = 0; i < gradients.size(); ++i) {
    named.emplace_back("weight" + std::to_string(i), gradients[i].clone());
  }
  return named;
}

Tensors tensors_of(const Compressor::Gradients& gradients) {
  Tensors tensors;
  for (const auto& [name, tensor] : gradients) tensors.push_back(tensor);
  return tensors;
}

class CompressorOf : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Registry, CompressorOf, testing::ValuesIn(all_methods()));

// Three workers, because there the order of sums shows: DDP has one bucket, the compressor one part
// with the parameters in the order of that bucket.
TEST_P(CompressorOf, GivesTheBitsThatDdpGives) {
  struct Record {
    std::vector<Tensors> by_ddp;
    std::vector<Tensors> by_compressor;
    State state_of_ddp;
    State state;
  };
  const auto records = run_world<Record>(3, [&](const Group& group) {
    const Options options{.method = GetParam()};
    DistributedDataParallel ddp(GradientFeeder(kVariousShapes), group, options);
    GradientFeeder feeder(kVariousShapes);
    Compressor compressor(feeder->named_parameters(), group, options);
    Record record;
    for (int step = 0; step < 5; ++step) {
      const Tensors gradients = gradients_for(group->getRank(), step, kVariousShapes);
      record.by_ddp.push_back(results_of_step(ddp, gradients));
      // DDP puts its parameters into a bucket in the order of construction at first, and in the
      // order in which gradients became ready from the second step on.
      Compressor::Gradients handed_over = named(gradients);
      if (step > 0) std::reverse(handed_over.begin(), handed_over.end());
      compressor.all_reduce(handed_over);
      if (step > 0) std::reverse(handed_over.begin(), handed_over.end());
      record.by_compressor.push_back(tensors_of(handed_over));
    }
    record.state_of_ddp = ddp.state();
    record.state = compressor.state();
    EXPECT_EQ(compressor.stats().steps, 5);
    EXPECT_EQ(compressor.stats().sent_bytes, ddp.stats().sent_bytes);
    EXPECT_EQ(compressor.residual_norm(), ddp.residual_norm());
    return record;
  });
  for (const Record& record : records) {
    for (size_t step = 0; step < record.by_ddp.size(); ++step) {
      for (size_t i = 0; i < kVariousShapes.size(); ++i) {
        EXPECT_TRUE(record.by_compressor[step][i].equal(record.by_ddp[step][i]))
            << "step " << step << ", parameter " << i << ": off by "
            << (record.by_compressor[step][i] - record.by_ddp[step][i]).abs().max();
      }
    }
    for (const auto& [key, value] : record.state) {
      if (value.isTensor()) {
        EXPECT_TRUE(value.toTensor().equal(record.state_of_ddp.at(key).toTensor())) << key;
      }
    }
  }
}

TEST_P(CompressorOf, TakesAStepInParts) {
  const auto results = run_world<Tensors>(2, [&](const Group& group) {
    GradientFeeder feeder(kVariousShapes);
    Compressor compressor(feeder->named_parameters(), group, {.method = GetParam()});
    Compressor whole(feeder->named_parameters(), group, {.method = GetParam()});
    Compressor::Gradients last;
    for (int step = 0; step < 3; ++step) {
      const Tensors gradients = gradients_for(group->getRank(), step, kVariousShapes);
      last = named(gradients);
      for (const auto& gradient : last) compressor.start({gradient});
      compressor.finish();
      Compressor::Gradients at_once = named(gradients);
      whole.all_reduce(at_once);
      for (size_t i = 0; i < last.size(); ++i) {
        EXPECT_TRUE(last[i].second.equal(at_once[i].second)) << "parameter " << i;
      }
    }
    EXPECT_EQ(compressor.stats().steps, 3);
    return tensors_of(last);
  });
  for (size_t i = 0; i < kVariousShapes.size(); ++i)
    EXPECT_TRUE(results[0][i].equal(results[1][i]));
}

TEST_P(CompressorOf, ResumesExactly) {
  run_world<bool>(2, [&](const Group& group) {
    GradientFeeder feeder(kVariousShapes);
    Compressor compressor(feeder->named_parameters(), group, {.method = GetParam()});
    Compressor resumed(feeder->named_parameters(), group, {.method = GetParam()});
    const auto result = [&](Compressor& by, int step) {
      Compressor::Gradients gradients =
          named(gradients_for(group->getRank(), step, kVariousShapes));
      by.all_reduce(gradients);
      return tensors_of(gradients);
    };
    for (int step = 0; step < 3; ++step) result(compressor, step);
    resumed.load_state(compressor.state());
    for (int step = 3; step < 6; ++step) {
      const Tensors wanted = result(compressor, step);
      const Tensors found = result(resumed, step);
      for (size_t i = 0; i < kVariousShapes.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i]));
    }
    return true;
  });
}

TEST(Compressor, RefusesWhatTheModelDoesNotHaveAndGoesOn) {
  run_world<bool>(1, [](const Group& group) {
    GradientFeeder feeder(Shapes{{4, 3}, {5}});
    Compressor compressor(feeder->named_parameters(), group, {.method = "topk"});
    EXPECT_THROW(compressor.start({{"bias", at::zeros({5})}}), std::invalid_argument);
    EXPECT_THROW(compressor.start({{"weight0", at::zeros({3, 4})}}), std::invalid_argument);
    EXPECT_THROW(compressor.start({{"weight0", at::zeros({4, 3}, at::kDouble)}}),
                 std::invalid_argument);
    EXPECT_THROW(compressor.start({{"weight0", at::Tensor()}}), std::invalid_argument);
    EXPECT_THROW(compressor.start({{"weight1", at::zeros({1}).expand({5})}}),
                 std::invalid_argument);
    EXPECT_EQ(compressor.stats().steps, 0);
    compressor.start({{"weight1", at::ones({5})}});
    EXPECT_THROW(compressor.start({{"weight1", at::ones({5})}}), std::invalid_argument);
    EXPECT_THROW(compressor.state(), std::runtime_error);
    compressor.finish();
    EXPECT_EQ(compressor.stats().steps, 1);
    EXPECT_NO_THROW(compressor.state());
    return true;
  });
}

TEST(Compressor, RefusesAutoOnAllWorkers) {
  const auto outcomes = run_world_with_errors<bool>(2, [](const Group& group) {
    GradientFeeder feeder(Shapes{{4, 3}});
    Compressor compressor(feeder->named_parameters(), group, {.method = "auto"});
    return true;
  });
  for (const auto& outcome : outcomes) {
    EXPECT_THROW(std::rethrow_exception(outcome.error), std::invalid_argument);
  }
}

TEST(Compressor, SaysInOneLineWhatItIs) {
  run_world<bool>(1, [](const Group& group) {
    GradientFeeder feeder(Shapes{{4, 3}});
    Compressor compressor(feeder->named_parameters(), group, {.method = "half"});
    EXPECT_EQ(compressor.describe(),
              "half dtype=\"bf16\", 1 worker, 0 steps, code ratio 1, wire ratio 1");
    return true;
  });
}

}  // namespace
}  // namespace gradwire
