#include <gtest/gtest.h>

#include "gradient_feeder.h"
#include "world.h"

namespace gradwire {
namespace {

// A net with everything that data parallelism must take care of: parameters, a frozen one, buffers.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(12, 40));
    norm = register_module("norm", torch::nn::BatchNorm1d(40));
    second = register_module("second", torch::nn::Linear(40, 5));
    frozen = register_parameter("frozen", torch::randn({3}), /*requires_grad=*/false);
  }
  at::Tensor forward(const at::Tensor& x) {
    return second(torch::relu(norm(first(x)))) + frozen.sum();
  }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear second{nullptr};
  at::Tensor frozen;
};
TORCH_MODULE(Net);

Tensors copies(const std::vector<at::Tensor>& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

TEST(DistributedDataParallel, StartsFromWorkerZero) {
  const auto weights = run_world<Tensors>(3, [](const Group& group) {
    Net net;
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor& tensor : net->parameters()) tensor.fill_(group->getRank() + 1);
      for (at::Tensor& tensor : net->buffers()) tensor.fill_(group->getRank() + 1);
    }
    const DistributedDataParallel ddp(net, group);
    Tensors all = copies(net->parameters());
    for (const at::Tensor& buffer : net->buffers()) all.push_back(buffer.clone());
    return all;
  });
  for (const Tensors& tensors : weights) {
    for (const at::Tensor& tensor : tensors) EXPECT_TRUE((tensor == 1).all().item<bool>());
  }
}

// With inputs whose sums are exact, N workers on N parts of a batch equal one worker on all of it.
TEST(DistributedDataParallel, EqualsOneWorkerWithTheWholeBatch) {
  const auto gradients_with = [](int workers) {
    return run_world<Tensors>(workers, [](const Group& group) {
      torch::nn::Linear net(4, 2);
      {
        const at::NoGradGuard no_grad;
        net->weight.copy_(torch::arange(8).view({2, 4}));
        net->bias.fill_(1);
      }
      DistributedDataParallel ddp(net, group);
      const at::Tensor batch = torch::arange(16 * 4).view({16, 4}).to(at::kFloat);
      ddp.forward(batch.chunk(group->getSize())[group->getRank()]).mean().backward();
      return Tensors{net->weight.grad(), net->bias.grad()};
    });
  };
  const Tensors alone = gradients_with(1)[0];
  for (const int workers : {2, 4}) {
    for (const Tensors& gradients : gradients_with(workers)) {
      EXPECT_TRUE(gradients[0].equal(alone[0]));
      EXPECT_TRUE(gradients[1].equal(alone[1]));
    }
  }
}

TEST(DistributedDataParallel, KeepsBuffersInStep) {
  const auto buffers = run_world<Tensors>(2, [](const Group& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor x = gradient_for(group->getRank(), step, 0, {8, 12});
      ddp.forward(x).sum().backward();
    }
    // The buffers are broadcast before a forward, so it takes one more to see them.
    ddp.forward(gradient_for(0, 9, 0, {8, 12})).sum().backward();
    return copies(net->buffers());
  });
  for (size_t i = 0; i < buffers[0].size(); ++i) EXPECT_TRUE(buffers[0][i].equal(buffers[1][i]));
}

TEST(DistributedDataParallel, AccumulatesUnderNoSync) {
  const std::vector<std::vector<int64_t>> shapes = {{40, 30}, {7}};
  for (const char* method : {"allreduce", "acpsgd"}) {
    const auto run = [&](bool accumulate) {
      return run_world<std::pair<Tensors, int64_t>>(2, [&](const Group& group) {
        DistributedDataParallel ddp(GradientFeeder(shapes), group, {.method = method});
        const int worker = group->getRank();
        Tensors results;
        for (int step = 0; step < 4; ++step) {
          const Tensors a = gradients_for(worker, step, shapes);
          const Tensors b = gradients_for(worker, step + 50, shapes);
          if (accumulate) {
            ddp.module()->zero_grad();
            {
              auto guard = ddp.no_sync();
              ddp.forward(a).backward();
            }
            ddp.forward(b).backward();
            results = copies({ddp.module()->weights[0].grad(), ddp.module()->weights[1].grad()});
          } else {
            results = results_of_step(ddp, {a[0] + b[0], a[1] + b[1]});
          }
        }
        return std::pair(results, ddp.stats().steps);
      });
    };
    const auto accumulated = run(true);
    const auto at_once = run(false);
    for (int worker = 0; worker < 2; ++worker) {
      EXPECT_EQ(accumulated[worker].second, 4) << method;
      for (size_t i = 0; i < shapes.size(); ++i) {
        EXPECT_TRUE(accumulated[worker].first[i].equal(at_once[worker].first[i])) << method;
      }
    }
  }
}

TEST(DistributedDataParallel, TakesParametersThatOneWorkerDoesNotUse) {
  const std::vector<std::vector<int64_t>> shapes = {{4}, {4}};
  for (const char* method : {"allreduce", "acpsgd"}) {
    const auto results = run_world<Tensors>(2, [&](const Group& group) {
      DistributedDataParallel ddp(GradientFeeder(shapes), group, {.method = method},
                                  {.find_unused_parameters = true});
      Tensors gradients = {at::full({4}, 2.0), at::full({4}, 6.0)};
      if (group->getRank() == 1) gradients[1] = at::Tensor();
      return results_of_step(ddp, gradients);
    });
    for (const Tensors& result : results) {
      EXPECT_TRUE(result[0].equal(at::full({4}, 2.0))) << method;
      EXPECT_TRUE(result[1].equal(at::full({4}, 3.0))) << method;
    }
  }
}

struct ManyArgumentsImpl : torch::nn::Module {
  ManyArgumentsImpl() { layer = register_module("layer", torch::nn::Linear(3, 3)); }
  std::tuple<at::Tensor, std::vector<at::Tensor>, int> forward(const at::Tensor& x, double factor,
                                                               const std::string& name) {
    const at::Tensor y = layer(x) * factor;
    return {y, {y + 1, y + 2}, static_cast<int>(name.size())};
  }
  torch::nn::Linear layer{nullptr};
};

TEST(DistributedDataParallel, ForwardsAnyArguments) {
  run_world<int>(2, [](const Group& group) {
    auto module = std::make_shared<ManyArgumentsImpl>();
    DistributedDataParallel ddp(module, group, {.method = "allreduce"},
                                {.find_unused_parameters = true});
    auto [y, more, length] = ddp.forward(torch::ones({2, 3}), 0.5, "four");
    EXPECT_EQ(length, 4);
    (y.sum() + more[1].sum()).backward();
    EXPECT_TRUE(module->layer->weight.grad().equal(at::full({3, 3}, 2.0)));
    return 0;
  });
}

TEST(DistributedDataParallel, PassesSparseGradientsUncompressed) {
  for (const char* method : {"allreduce", "acpsgd"}) {
    run_world<int>(2, [&](const Group& group) {
      torch::nn::Embedding table(torch::nn::EmbeddingOptions(30, 20).sparse(true));
      DistributedDataParallel ddp(table, group, {.method = method});
      const int worker = group->getRank();
      for (int step = 0; step < 3; ++step) {
        table->zero_grad();
        ddp.forward(torch::tensor({worker, 7})).sum().backward();
        const at::Tensor gradient = table->weight.grad().to_dense();
        EXPECT_TRUE((gradient[0] == 0.5).all().item<bool>()) << method;
        EXPECT_TRUE((gradient[1] == 0.5).all().item<bool>()) << method;
        EXPECT_TRUE((gradient[7] == 1).all().item<bool>()) << method;
        EXPECT_EQ(gradient.sum().item<double>(), 40) << method;
      }
      return 0;
    });
  }
}

TEST(DistributedDataParallel, WorksWithGradientsAsBucketViews) {
  const std::vector<std::vector<int64_t>> shapes = {{40, 30}, {7}, {30, 40}};
  for (const char* method : {"allreduce", "acpsgd"}) {
    const auto run = [&](const DataParallelOptions& options) {
      return run_world<Tensors>(2, [&](const Group& group) {
        DistributedDataParallel ddp(GradientFeeder(shapes), group, {.method = method}, options);
        Tensors results;
        for (int step = 0; step < 5; ++step) {
          results = results_of_step(ddp, gradients_for(group->getRank(), step, shapes));
        }
        return results;
      })[0];
    };
    const Tensors copied = run({});
    const Tensors viewed = run({.gradient_as_bucket_view = true});
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_TRUE(copied[i].equal(viewed[i])) << method << ", parameter " << i;
    }
  }
}

TEST(DistributedDataParallel, ReadsChannelsLastInLogicalOrder) {
  const std::vector<std::vector<int64_t>> shapes = {{16, 8, 3, 3}};
  const auto run = [&](bool channels_last) {
    return run_world<at::Tensor>(2, [&](const Group& group) {
      GradientFeeder feeder(shapes);
      if (channels_last) {
        feeder->weights[0].set_data(
            feeder->weights[0].detach().contiguous(at::MemoryFormat::ChannelsLast));
      }
      DistributedDataParallel ddp(feeder, group, {.method = "acpsgd"});
      at::Tensor result;
      for (int step = 0; step < 4; ++step) {
        result = results_of_step(ddp, gradients_for(group->getRank(), step, shapes))[0];
      }
      return result;
    })[0];
  };
  EXPECT_TRUE(run(true).equal(run(false)));
}

TEST(DistributedDataParallel, TakesHalfPrecisionAndDoubleGradients) {
  const std::vector<std::vector<int64_t>> shapes = {{40, 30}, {7}};
  for (const char* method : {"allreduce", "acpsgd"}) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
      const auto results = run_world<Tensors>(2, [&](const Group& group) {
        DistributedDataParallel ddp(GradientFeeder(shapes, type), group,
                                    {.method = method, .skip = {"*1"}});
        Tensors gradients = {at::full(shapes[0], 2.0, type), at::full(shapes[1], 3.0, type)};
        return results_of_step(ddp, gradients);
      });
      for (const Tensors& result : results) {
        EXPECT_EQ(result[0].scalar_type(), type);
        EXPECT_TRUE((result[1] == 3).all().item<bool>()) << method << type;
      }
    }
  }
}

TEST(DistributedDataParallel, RefusesAModuleWithNothingToTrain) {
  const auto outcomes = run_world_with_errors<int>(1, [](const Group& group) {
    torch::nn::Linear net(2, 2);
    for (at::Tensor& parameter : net->parameters()) parameter.requires_grad_(false);
    DistributedDataParallel ddp(net, group);
    return 0;
  });
  EXPECT_THROW(std::rethrow_exception(outcomes[0].error), std::invalid_argument);
}

TEST(StartAfter, SendsPlainGradientsFirst) {
  const std::vector<std::vector<int64_t>> shapes = {{40, 30}};
  run_world<int>(2, [&](const Group& group) {
    DistributedDataParallel ddp(GradientFeeder(shapes), group,
                                {.method = "acpsgd", .start_after = 2});
    for (int step = 0; step < 4; ++step) {
      const at::Tensor result =
          results_of_step(ddp, gradients_for(group->getRank(), step, shapes))[0];
      const at::Tensor mean =
          (gradient_for(0, step, 0, shapes[0]) + gradient_for(1, step, 0, shapes[0])) / 2;
      EXPECT_EQ(result.equal(mean), step < 2) << "step " << step;
    }
    return 0;
  });
}

}  // namespace
}  // namespace gradwire
