#include "engine/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/routes.h"
#include "gradient_feeder.h"
#include "gradwire/measuring.h"
#include "world.h"

namespace gradwire {
namespace {

// One parameter of one worker, alone in its bucket.
class OneParameter {
 public:
  OneParameter(const Group& group, const Request& request)
      : parameters_{{"weight", at::zeros({40, 30})}},
        engine_(group, parameters_, request, make_plan(request, parameters_), StepRecorder({})) {
    engine_.make_later_rounds([&] { return make_further_group(*group); }, /*rounds=*/2);
  }

  at::Tensor step(const at::Tensor& gradient) {
    const at::Tensor buffer = gradient.flatten().clone();
    engine_.complete(*launch(buffer));
    return buffer.view(gradient.sizes());
  }
  std::unique_ptr<Passage> launch(const at::Tensor& buffer) {
    c10d::GradBucket bucket(0, 1, buffer, {0}, {static_cast<size_t>(buffer.numel())},
                            {parameters_[0].tensor.sizes()}, {parameters_[0].tensor}, {});
    return engine_.launch(bucket, /*has_joined=*/false);
  }

  Engine& engine() { return engine_; }
  void adopt(const Request& request) { engine_.adopt(make_plan(request, parameters_)); }

 private:
  std::vector<Parameter> parameters_;
  Engine engine_;
};

TEST(Engine, LosesNothingWhenThePlanChanges) {
  run_world<bool>(1, [](const Group& group) {
    OneParameter model(group, {.method = "topk"});
    const at::Tensor gradient = at::randn({40, 30});
    at::Tensor sum = at::zeros_like(gradient);
    int steps = 0;
    for (const char* method : {"topk", "adacomp", "acpsgd", "sign", "half", "topk", "allreduce"}) {
      model.adopt({.method = method});
      for (int i = 0; i < 3; ++i, ++steps) sum += model.step(gradient);
    }
    // `half` keeps nothing back: its rounding is lost.
    EXPECT_TRUE(at::allclose(sum, steps * gradient, 1e-2, 1e-2));
    EXPECT_EQ(model.engine().stats().residual_norm, 0);
    EXPECT_EQ(model.engine().stats().plan.at("weight"), "uncompressed");
    return true;
  });
}

TEST(Engine, ForgetsWhatWasLeftOverWhenAStateIsLoaded) {
  run_world<bool>(1, [](const Group& group) {
    OneParameter model(group, {.method = "allreduce"});
    const State at_first = model.engine().state();
    const at::Tensor gradient = at::randn({40, 30});
    model.adopt({.method = "topk"});
    model.step(gradient);
    model.adopt({.method = "allreduce"});
    model.engine().load_state(at_first);
    EXPECT_TRUE(model.step(gradient).equal(gradient));
    return true;
  });
}

TEST(Engine, HasNoStateAfterAStepThatFailed) {
  run_world<bool>(1, [](const Group& group) {
    OneParameter model(group, {.method = "topk"});
    const at::Tensor gradient = at::randn({40, 30});
    model.step(gradient);
    const at::Tensor stranger = at::zeros({40, 30});
    c10d::GradBucket bucket(0, 1, gradient.flatten(), {0}, {1200}, {stranger.sizes()}, {stranger},
                            {});
    EXPECT_ANY_THROW(model.engine().launch(bucket, /*has_joined=*/false));
    EXPECT_THROW(model.engine().state(), std::runtime_error);
    model.step(gradient);
    EXPECT_NO_THROW(model.engine().state());
    return true;
  });
}

// As an exception in backward leaves them, which the training catches on every worker.
TEST(Engine, GoesOnAfterMessagesThatNobodyHasWaitedFor) {
  const auto results = run_world<at::Tensor>(2, [](const Group& group) {
    OneParameter model(group, {.method = "sign"});
    const at::Tensor gradient = gradient_for(group->getRank(), 0, 0, {40, 30});
    // Nothing has arrived yet when the first gives up.
    if (group->getRank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    model.launch(gradient.flatten().clone()).reset();
    return model.step(gradient);
  });
  EXPECT_TRUE(results[0].equal(results[1]));
}

class SumsByAllGather : public testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { set_sums_by_all_gather(false); }
};

INSTANTIATE_TEST_SUITE_P(Methods, SumsByAllGather,
                         testing::Values("allreduce", "powersgd", "acpsgd"));

TEST_P(SumsByAllGather, GiveTheSameResultAndCostMoreThanAllReduce) {
  struct Outcome {
    at::Tensor results = at::zeros({6, 40, 30});
    int64_t sent_bytes = 0;
  };
  const auto train = [&](const Group& group) {
    OneParameter model(group, {.method = GetParam()});
    Outcome outcome;
    for (int step = 0; step < 6; ++step) {
      outcome.results[step] = model.step(gradient_for(group->getRank(), step, 0, {40, 30}));
    }
    outcome.sent_bytes = model.engine().stats().sent_bytes;
    return outcome;
  };
  const Outcome reduced = run_world<Outcome>(3, train)[0];
  set_sums_by_all_gather(true);
  for (const Outcome& gathered : run_world<Outcome>(3, train)) {
    EXPECT_TRUE(at::allclose(gathered.results, reduced.results, 1e-3, 1e-4));
    // (N - 1) times what it passes to the collective, instead of 2 (N - 1) / N times.
    EXPECT_NEAR(static_cast<double>(gathered.sent_bytes) / reduced.sent_bytes, 1.5, 0.01);
  }
}

}  // namespace
}  // namespace gradwire
