#include "comm/handshake.h"

#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "gradient_feeder.h"
#include "gradwire/errors.h"
#include "world.h"

namespace gradwire {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

// What each worker's attach threw, in words; "" where it threw nothing.
std::vector<std::string> attach_errors(int workers,
                                       const std::function<void(const Group&)>& attach_on) {
  std::vector<std::string> messages;
  for (const auto& outcome : run_world_with_errors<int>(workers, [&](const Group& group) {
         attach_on(group);
         return 0;
       })) {
    try {
      if (outcome.error) std::rethrow_exception(outcome.error);
      messages.emplace_back();
    } catch (const std::exception& error) {
      messages.emplace_back(error.what());
    }
  }
  return messages;
}

void expect_all_contain(const std::vector<std::string>& messages,
                        const std::vector<std::string>& parts) {
  for (size_t worker = 0; worker < messages.size(); ++worker) {
    for (const std::string& part : parts) {
      EXPECT_NE(messages[worker].find(part), std::string::npos)
          << "worker " << worker << " says: " << messages[worker] << "; wanted: " << part;
    }
  }
}

TEST(Handshake, NamesTheOptionAndTheWorkerThatDiffer) {
  expect_all_contain(
      attach_errors(3,
                    [](const Group& group) {
                      DistributedDataParallel ddp(
                          GradientFeeder(Shapes{{40, 30}}), group,
                          {.method = "acpsgd", .rank = group->getRank() == 2 ? 8 : 4});
                    }),
      {"options/rank", "4 on worker 0", "8 on worker 2"});
}

TEST(Handshake, NamesWhatOneWorkerHasLeftToItsDefault) {
  expect_all_contain(
      attach_errors(2,
                    [](const Group& group) {
                      Options options{.method = "topk"};
                      if (group->getRank() == 1) options.density = 0.02;
                      DistributedDataParallel ddp(GradientFeeder(Shapes{{40, 30}}), group, options);
                    }),
      {"options/density is 0.01 on worker 0 and 0.02 on worker 1"});
  expect_all_contain(
      attach_errors(2,
                    [](const Group& group) {
                      Options options{.method = "topk"};
                      if (group->getRank() == 1) options.skip = {"weight1"};
                      DistributedDataParallel ddp(GradientFeeder(Shapes{{40, 30}}), group, options);
                    }),
      {"skip/0 is \"weight1\" on worker 1 and missing on worker 0"});
  // The default said aloud is no difference.
  run_world<int>(2, [](const Group& group) {
    Options options{.method = "topk"};
    if (group->getRank() == 1) options.density = 0.01;
    DistributedDataParallel ddp(GradientFeeder(Shapes{{40, 30}}), group, options);
    return 0;
  });
}

TEST(Handshake, NamesTheMethodThatDiffers) {
  expect_all_contain(
      attach_errors(2,
                    [](const Group& group) {
                      DistributedDataParallel ddp(
                          GradientFeeder(Shapes{{40, 30}}), group,
                          {.method = group->getRank() == 0 ? "allreduce" : "acpsgd"});
                    }),
      {"method", "\"allreduce\" on worker 0", "\"acpsgd\" on worker 1"});
}

TEST(Handshake, NamesTheParameterThatDiffers) {
  expect_all_contain(attach_errors(2,
                                   [](const Group& group) {
                                     DistributedDataParallel ddp(
                                         GradientFeeder(Shapes{{3}, {40, group->getRank() + 30}}),
                                         group);
                                   }),
                     {"parameters/1/shape/1", "30 on worker 0", "31 on worker 1"});
  expect_all_contain(attach_errors(2,
                                   [](const Group& group) {
                                     Shapes shapes(group->getRank() + 1, {4});
                                     DistributedDataParallel ddp(GradientFeeder(shapes), group);
                                   }),
                     {"parameters/1", "missing on worker 0"});
}

TEST(Handshake, CarriesAWorkersOwnMistakeToTheOthers) {
  const auto messages = attach_errors(3, [](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(Shapes{{40, 30}}), group,
                                {.method = group->getRank() == 1 ? "acpsdg" : "acpsgd"});
  });
  expect_all_contain(messages, {"there is no method \"acpsdg\"; the methods are: allreduce"});
  for (const int worker : {0, 2}) {
    EXPECT_NE(messages[worker].find("failed on worker 1"), std::string::npos);
  }
}

TEST(Handshake, NamesTheWorkerThatNeverCame) {
  const auto messages = attach_errors(3, [](const Group& group) {
    if (group->getRank() == 1) return;
    DistributedDataParallel ddp(GradientFeeder(Shapes{{4}}), group,
                                {.handshake_timeout = std::chrono::milliseconds(500)});
  });
  EXPECT_EQ(messages[1], "");
  for (const int worker : {0, 2}) {
    EXPECT_NE(messages[worker].find("0.5"), std::string::npos) << messages[worker];
    EXPECT_NE(messages[worker].find("for worker 1,"), std::string::npos) << messages[worker];
  }
}

TEST(Handshake, TellsALateWorkerThatTheOthersHaveGivenUp) {
  std::promise<void> given_up;
  const auto messages = attach_errors(2, [&](const Group& group) {
    if (group->getRank() == 1) given_up.get_future().wait();
    try {
      DistributedDataParallel ddp(GradientFeeder(Shapes{{4}}), group,
                                  {.handshake_timeout = std::chrono::milliseconds(300)});
    } catch (const PeerError&) {
      if (group->getRank() == 0) given_up.set_value();
      throw;
    }
  });
  EXPECT_NE(messages[0].find("for worker 1, which did not come"), std::string::npos) << messages[0];
  EXPECT_NE(messages[1].find("failed on worker 0"), std::string::npos) << messages[1];
}

TEST(Handshake, TellsTheOthersThatAModelHasNothingToTrain) {
  const auto messages = attach_errors(2, [](const Group& group) {
    GradientFeeder model(Shapes{{4}});
    if (group->getRank() == 1) {
      for (at::Tensor& parameter : model->parameters()) parameter.set_requires_grad(false);
    }
    DistributedDataParallel ddp(model, group);
  });
  expect_all_contain(messages, {"no parameter to train"});
}

TEST(Handshake, LetsTwoModelsInOneWorldAgreeEachForItself) {
  run_world<int>(2, [](const Group& group) {
    DistributedDataParallel first(GradientFeeder(Shapes{{40, 30}}), group, {.method = "acpsgd"});
    DistributedDataParallel second(GradientFeeder(Shapes{{4}, {30, 40}}), group,
                                   {.method = "acpsgd", .rank = 2});
    for (int step = 0; step < 3; ++step) {
      results_of_step(first, gradients_for(group->getRank(), step, {{40, 30}}));
      results_of_step(second, gradients_for(group->getRank(), step, {{4}, {30, 40}}));
    }
    EXPECT_EQ(first.stats().steps, 3);
    EXPECT_EQ(second.stats().steps, 3);
    return 0;
  });
}

}  // namespace
}  // namespace gradwire
