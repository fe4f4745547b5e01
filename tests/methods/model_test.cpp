// What must hold for the planner's model of every method in the registry, and what the models say
// of the methods that there are.

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "../planner/example_profile.h"
#include "gradients.h"
#include "methods/registry.h"
#include "planner/bucket_cost.h"
#include "planner/plan.h"
#include "simulated_world.h"

namespace gradwire::planner {
namespace {

const OptionMap kRank = {{"rank", int64_t{32}}};

double seconds_of(const Profile& profile, const Network& network, const MethodModel* method) {
  return simulate(profile, network, {method, kRank}).seconds;
}

TEST(MethodModels, AreInPlansAndInWhatAutoMayChoose) {
  const PlanRequest request{.compute = "0.2"};
  const SweepRequest sweep = sweep_request(request, method_models());
  const OptionMap defaults = complete_options(find_method(kAuto), {{"delayed", true}});
  const std::vector<std::string> candidates = subset_of(defaults.at("candidates"));
  for (const MethodEntry& entry : registry()) {
    for (const MethodModel& model : entry.models) {
      const auto is_planned = [&](const MethodChoice& c) { return c.model->name == model.name; };
      EXPECT_EQ(std::ranges::count_if(sweep.methods, is_planned), 1) << model.name;
      EXPECT_TRUE(sweep.profile.rates.contains(model.name)) << model.name;
    }
    EXPECT_EQ(std::ranges::count(candidates, entry.name), entry.compresses() ? 1 : 0) << entry.name;
  }
}

TEST(MethodModels, HaveTheClassOfLossOfTheirMethod) {
  for (const MethodModel* model : method_models()) {
    const auto& [method, variant] = find_variant(model->name);
    EXPECT_EQ(model->loss_class(), facts_of(method, variant.options).loss_class) << model->name;
  }
}

TEST(MethodModels, HaveTheDefaultsOfTheirMethod) {
  for (const MethodModel* model : method_models()) {
    const auto& [method, variant] = find_variant(model->name);
    const OptionMap defaults = complete_options(method, variant.options);
    for (const ModelOption& option : model->options) {
      const auto own = defaults.find(option.name);
      if (own == defaults.end()) continue;
      EXPECT_EQ(option.default_value, own->second) << option.name;
    }
  }
}

// A candidate of auto, and no other, may be advised.
TEST(MethodModels, AreAdvisedIfAutoMayChooseThem) {
  const OptionMap defaults = complete_options(find_method(kAuto), {{"delayed", true}});
  const std::vector<std::string> candidates = subset_of(defaults.at("candidates"));
  for (const MethodModel* model : method_models()) {
    EXPECT_EQ(std::ranges::count(candidates, model->name), model->is_candidate ? 1 : 0)
        << model->name;
  }
}

TEST(MethodModels, HaveARecipeThatNamesMethodAndOptions) {
  for (const MethodModel* model : method_models()) {
    const auto& [method, variant] = find_variant(model->name);
    const std::string line = MethodChoice{model}.recipe();
    EXPECT_TRUE(line.starts_with("gradwire.attach(ddp, \"" + method.name + "\"")) << line;
    for (const auto& [name, value] : variant.options) {
      EXPECT_NE(line.find(", " + name + "=" + to_string(value)), std::string::npos) << line;
    }
    for (const ModelOption& option : model->options) {
      const bool is_own = std::ranges::count(method.options, option.name, &OptionSpec::name) == 1;
      const OptionValue other = option.is_whole() ? OptionValue(int64_t{7}) : OptionValue(0.7);
      const std::string with = MethodChoice{model, {{option.name, other}}}.recipe();
      const std::string text = ", " + option.name + "=" + to_string(other) + ")";
      EXPECT_EQ(with.find(text) != std::string::npos, is_own) << with;
    }
  }
}

TEST(MethodModels, HaveNamesAndColoursOfTheirOwn) {
  std::set<std::string> names;
  std::set<std::string> colours;
  for (const MethodModel* model : method_models()) {
    names.insert(model->name);
    colours.insert(model->colour);
  }
  EXPECT_EQ(names.size(), method_models().size());
  EXPECT_EQ(colours.size(), method_models().size());
}

TEST(MethodModels, WithoutACostOfTheLinkIsComputeAndCoding) {
  for (const std::string& model : model_names()) {
    const Profile profile = example_profile(model.c_str(), 0.2, method_models());
    const Network network{.workers = 64};
    EXPECT_NEAR(seconds_of(profile, network, &plain_all_reduce()), 0.2, 1e-9);
    for (const MethodModel* method : method_models()) {
      Profile uncoded = profile;
      uncoded.rates = {};
      uncoded.flops_per_second = std::numeric_limits<double>::infinity();
      EXPECT_NEAR(seconds_of(uncoded, network, method), 0.2, 1e-9) << method->name;
      const MethodChoice choice{method, kRank};
      const Prediction coded = simulate(profile, network, choice);
      EXPECT_LE(coded.seconds, 0.2 + coded.coding_seconds + 1e-9) << method->name;
    }
  }
}

TEST(MethodModels, IsNeverFasterThanComputeNorThanTheWire) {
  const Profile profile = example_profile("bert-base", 0.1, method_models());
  for (const MethodModel* method : method_models()) {
    for (const double gbit : {0.1, 1.0, 10.0, 100.0}) {
      const MethodChoice choice{method};
      const Prediction prediction = simulate(profile, example_network(16, gbit), choice);
      EXPECT_GE(prediction.seconds, profile.compute_seconds()) << method->name;
      // Latencies of the two rounds pass in parallel.
      const Prediction no_latency = simulate(profile, example_network(16, gbit, 0), choice);
      EXPECT_GE(no_latency.seconds, no_latency.wire_seconds) << method->name;
    }
  }
}

TEST(MethodModels, IsNeverSlowerWithAFasterLink) {
  const Profile profile = example_profile("bert-base", 0.1, method_models());
  for (const MethodModel* method : method_models()) {
    // Work between rounds shares the processor with backward. If it starts a little earlier, it may
    // delay what everything waits for.
    const double anomaly = method->tensor_operations.between > 0 ? 0.01 : 1e-9;
    double slower = std::numeric_limits<double>::infinity();
    for (double gbit = 0.1; gbit < 1000; gbit *= 1.5) {
      const double seconds = seconds_of(profile, example_network(32, gbit), method);
      EXPECT_LE(seconds, slower * (1 + anomaly)) << method->name << " at " << gbit;
      slower = seconds;
    }
    double quicker = 0;
    for (double latency = 1e-6; latency < 1e-2; latency *= 2) {
      const double seconds = seconds_of(profile, example_network(32, 10, latency), method);
      EXPECT_GE(seconds, quicker * (1 - anomaly)) << method->name << " at " << latency;
      quicker = seconds;
    }
  }
}

TEST(MethodModels, IsNeverFasterWithMoreWorkers) {
  const Profile profile = example_profile("resnet-50", 0.2, method_models());
  for (const MethodModel* method : method_models()) {
    double fewer = 0;
    for (int64_t workers = 1; workers <= 1024; workers *= 2) {
      const double seconds = seconds_of(profile, example_network(workers, 10), method);
      EXPECT_GE(seconds, fewer * (1 - 1e-9)) << method->name << " with " << workers;
      fewer = seconds;
    }
  }
}

TEST(MethodModels, SendsWhatTheMethodsSend) {
  const Profile profile = example_profile("bert-base", 0.1, method_models());
  const auto first_bytes = [&](const char* name) {
    const MethodChoice choice{&method_named(method_models(), name)};
    double bytes = 0;
    for (const Bucket& bucket : profile.buckets) {
      bytes += bucket_cost(profile, bucket, choice, 8, 0).rounds[0].bytes;
    }
    return bytes;
  };
  const double all = profile.gradient_bytes();
  EXPECT_EQ(first_bytes("allreduce"), all);
  EXPECT_EQ(first_bytes("half"), all / 2);
  EXPECT_NEAR(first_bytes("sign"), all / 25.6, all / 2560);
  EXPECT_NEAR(first_bytes("sign-vote"), all / 32, all / 3200);
  // 1 % of the elements at 32 bits and a position of about 8.2.
  EXPECT_NEAR(first_bytes("topk"), 0.01 * all * 40.2 / 32, 0.0003 * all);
  EXPECT_NEAR(first_bytes("adacomp"), 1.125 * all / 200, 0.0001 * all);
}

// Of factors in every type, with columns that fill their blocks and others that do not.
TEST(MethodModels, SendsTheFactorsThatTheMethodsSend) {
  const std::vector<std::vector<int64_t>> shapes = {{300, 500}, {64, 32, 3, 3}, {256, 128}};
  Profile profile;
  profile.buckets.emplace_back();
  for (const auto& shape : shapes) {
    profile.buckets[0].parameters.push_back(profile.parameters.size());
    profile.parameters.push_back({"weight", shape});
  }
  for (const MethodEntry& entry : registry()) {
    for (const Variant& variant : entry.variants) {
      if (!facts_of(entry, variant.options).model_options.contains("factor_bits")) continue;
      SimulatedWorld world(entry.name, variant.options, 1, shapes);
      const MethodChoice choice = choice_of(entry, variant.options);
      for (int kind = 0; kind < choice.model->kinds_of_steps; ++kind) {
        const BucketCost cost = bucket_cost(profile, profile.buckets[0], choice, 1, kind);
        world.step(random_gradients(1, kind, shapes));
        double sent = 0;
        for (const int64_t bytes : world.payload_bytes()[0]) sent += static_cast<double>(bytes);
        double modelled = 0;
        for (size_t i = 0; i < cost.round_count; ++i) modelled += cost.rounds[i].bytes;
        // Counts of contributors and padding come on top.
        EXPECT_NEAR(sent, modelled, 16) << variant.name << ", kind " << kind;
      }
    }
  }
}

TEST(MethodModels, OfBertLargeAtAThousandWorkersRunsAThousandTimesASecond) {
  const Profile profile = example_profile("bert-large", 0.2, method_models());
  const Network network = example_network(1024, 10);
  for (const MethodModel* method : method_models()) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) seconds_of(profile, network, method);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    EXPECT_GT(100 / taken.count(), 1000) << method->name;
  }
}

}  // namespace
}  // namespace gradwire::planner
