#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/routes.h"
#include "gradient_feeder.h"
#include "world.h"

namespace gradwire {
namespace {

// One parameter of one worker, a part of its own.
class OneParameter {
 public:
  OneParameter(const Group& group, const Request& request)
      : parameters_{{"weight", at::zeros({40, 30})}},
        engine_(Courier(
                    group, [&] { return make_further_group(*group); }, /*rounds=*/2),
                parameters_, request, make_routes(request, parameters_)) {}

  at::Tensor step(const at::Tensor& gradient) {
    const at::Tensor result = gradient.clone();
    engine_.finish(*start(result));
    return result;
  }
  std::unique_ptr<Part> start(const at::Tensor& gradient) {
    engine_.begin_step();
    return engine_.start({{0, gradient}});
  }

  Engine& engine() { return engine_; }
  void adopt(const Request& request) { engine_.adopt(make_routes(request, parameters_)); }

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
    EXPECT_EQ(model.engine().residual_norm(), 0);
    EXPECT_EQ(model.engine().counters().stats().plan.at("weight"), "uncompressed");
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
    OneParameter model(group, {.method = "acpsgd"});
    const at::Tensor gradient = at::randn({40, 30});
    model.step(gradient);
    EXPECT_ANY_THROW(model.start(at::zeros({3})));  // not the parameter's shape
    EXPECT_THROW(model.engine().state(), std::runtime_error);
    EXPECT_THROW(model.engine().residual_norm(), std::runtime_error);
    model.step(gradient);
    EXPECT_NO_THROW(model.engine().state());
    return true;
  });
}

// A worker may ask for statistics while another one keeps its step waiting.
TEST(Engine, TellsItsStatsWhileAStepWaits) {
  run_world<bool>(2, [](const Group& group) {
    OneParameter model(group, {.method = "sign"});
    if (group->getRank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const at::Tensor gradient = at::randn({40, 30});
    const std::unique_ptr<Part> part = model.start(gradient);
    std::atomic<bool> is_finished = false;
    std::thread waiting([&] {
      model.engine().finish(*part);
      is_finished = true;
    });
    if (group->getRank() == 0) {
      const Stats stats = model.engine().counters().stats();
      EXPECT_FALSE(is_finished);
      EXPECT_EQ(stats.steps, 1);
      EXPECT_EQ(stats.payload_bytes, 0);  // counted when the part is finished
    }
    waiting.join();
    EXPECT_GT(model.engine().counters().stats().payload_bytes, 0);
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
    model.start(gradient.clone()).reset();
    return model.step(gradient);
  });
  EXPECT_TRUE(results[0].equal(results[1]));
}

}  // namespace
}  // namespace gradwire
