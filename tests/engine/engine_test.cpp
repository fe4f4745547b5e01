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

const OptionMap kMomentum = {{"momentum", 0.9}};

// In units of the gradient all the time, whether momentum correction comes or goes.
TEST(Engine, LosesNothingWhenMomentumCorrectionComesAndGoes) {
  run_world<bool>(1, [](const Group& group) {
    OneParameter model(group, {.method = "topk", .options = kMomentum});
    const at::Tensor gradient = at::randn({40, 30});
    at::Tensor sum = at::zeros_like(gradient);
    const std::vector<Request> requests = {{.method = "topk", .options = kMomentum},
                                           {.method = "adacomp", .options = kMomentum},
                                           {.method = "topk"},
                                           {.method = "sign", .options = kMomentum},
                                           {.method = "allreduce"}};
    int steps = 0;
    for (const Request& request : requests) {
      model.adopt(request);
      for (int i = 0; i < 3; ++i, ++steps) sum += model.step(gradient);
    }
    EXPECT_TRUE(at::allclose(sum, steps * gradient, 1e-3, 1e-3));
    return true;
  });
}

at::Tensor saved(Engine& engine, const std::string& key) {
  return engine.state().at(key).toTensor();
}

// Momentum correction learns from the engine that the optimizer has skipped a step, whichever part
// of it was not finite.
TEST(Engine, KnowsOfAWholeStepWhetherItCounts) {
  run_world<bool>(1, [](const Group& group) {
    const std::vector<Parameter> parameters = {{"corrected", at::zeros({40, 30})},
                                               {"plain", at::zeros({7})}};
    const Request request{.method = "adacomp", .options = kMomentum, .skip = {"plain"}};
    Engine engine(Courier(
                      group, [&] { return make_further_group(*group); }, /*rounds=*/2),
                  parameters, request, make_routes(request, parameters));
    const auto step = [&](float of_plain, bool plain_first) {
      const std::vector<Gradient> gradients = {{0, at::randn({40, 30})},
                                               {1, at::full({7}, of_plain)}};
      engine.begin_step();
      const auto first = engine.start({gradients[plain_first ? 1 : 0]});
      const auto second = engine.start({gradients[plain_first ? 0 : 1]});
      engine.finish(*first);
      engine.finish(*second);
    };
    step(1, false);
    for (const bool plain_first : {false, true}) {
      const at::Tensor before = saved(engine, "corrected/common_velocity");
      step(std::numeric_limits<float>::infinity(), plain_first);
      EXPECT_TRUE(saved(engine, "corrected/common_velocity").equal(before));
      step(1, plain_first);
      EXPECT_FALSE(saved(engine, "corrected/common_velocity").equal(before));
    }
    // A step that was cut short is skipped as well.
    const at::Tensor before = saved(engine, "corrected/common_velocity");
    engine.begin_step();
    const auto finished = engine.start({{0, at::randn({40, 30})}});
    const auto abandoned = engine.start({{1, at::ones({7})}});
    engine.finish(*finished);
    engine.begin_step();
    EXPECT_TRUE(saved(engine, "corrected/common_velocity").equal(before));
    return true;
  });
}

// One of two workers has no data in the second step. Its velocity stays, and the velocity that the
// optimizer has is that of the other alone.
TEST(Engine, CorrectsForMomentumAfterDividingByActiveWorkers) {
  run_world<bool>(2, [](const Group& group) {
    OneParameter model(group, {.method = "topk", .options = {{"density", 1.0}, {"momentum", 0.5}}});
    Engine& engine = model.engine();
    engine.divide_by_active_workers(true);
    const auto step = [&](bool has_data, const at::Tensor& gradient) {
      const at::Tensor result = gradient.clone();
      engine.begin_step(has_data);
      engine.finish(*engine.start({{0, result}}));
      return result;
    };
    const bool stays = group->getRank() == 0;
    const auto full = [](double value) { return at::full({40, 30}, value); };
    EXPECT_TRUE(step(true, full(stays ? 4 : 8)).equal(full(6)));
    // u = 0.5 · 4 + 1, and s before was 6.
    EXPECT_TRUE(step(stays, full(stays ? 1 : 0)).equal(full(3 - 0.5 * 6)));
    EXPECT_TRUE(saved(engine, "weight/common_velocity").equal(full(3)));
    EXPECT_TRUE(saved(engine, "weight/velocity").equal(full(stays ? 3 : 8)));
    // u = 0.5 · 3 + 1 and 0.5 · 8 + 1.
    EXPECT_TRUE(step(true, full(1)).equal(full(3.75 - 0.5 * 3)));
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
