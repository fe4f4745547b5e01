// Both codes of a device do the same, method by method: everything is run with the kernels and in
// ATen ops, with every choice that an option of a method leaves. A new method is tested here
// without a line of test code.

#include "methods/device_code.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <regex>

#include "../kernels/without_bf16.h"
#include "counted_code.h"
#include "gradients.h"
#include "gradwire/methods.h"
#include "simulated_world.h"

namespace gradwire {
namespace {

struct Choice {
  std::string name;
  std::string method;
  OptionMap options = {};

  // How far a last bit may reach where factors, values or elements are rounded to fewer bits. With
  // four bits a level is a seventh of the largest number.
  double rounding() const {
    const OptionMap complete = complete_options(find_method(method), options);
    const auto type = complete.find("dtype");
    if (type == complete.end()) return complete.contains("bits") ? 2e-2 : 0;
    const auto& name = std::get<std::string>(type->second);
    return name == "int4" ? 1e-1 : name == "fp32" ? 0 : 2e-2;
  }
};

void PrintTo(const Choice& choice, std::ostream* out) { *out << choice.name; }

// The other values of an option that is a choice.
std::vector<OptionValue> alternatives(const OptionDescription& option) {
  if (const bool* flag = std::get_if<bool>(&option.default_value)) return {!*flag};
  std::vector<OptionValue> values;
  const std::regex quoted("\"([^\"]*)\"");
  for (std::sregex_iterator found(option.rule.begin(), option.rule.end(), quoted), end;
       found != end; ++found) {
    const OptionValue value = (*found)[1].str();
    if (value != option.default_value) values.push_back(value);
  }
  return values;
}

// Every method as it is by default, with one option changed, and as its variants.
std::vector<Choice> all_choices() {
  std::vector<Choice> choices;
  for (const MethodDescription& method : methods()) {
    if (method.name == kAuto) continue;  // it has no exchange of its own
    for (const VariantDescription& variant : method.variants) {
      choices.push_back({std::regex_replace(variant.name, std::regex("[^a-z0-9]"), "_"),
                         method.name, variant.options});
    }
    for (const OptionDescription& option : method.options) {
      for (const OptionValue& value : alternatives(option)) {
        const std::string name = method.name + "_" + option.name + "_" + to_string(value);
        choices.push_back(
            {std::regex_replace(name, std::regex("\""), ""), method.name, {{option.name, value}}});
      }
    }
  }
  return choices;
}

// What the method takes: where it has a state for some parameters and cannot carry others, those.
Shapes shapes_for(const Choice& choice) {
  const Shapes all = {{}, {1}, {7}, {64, 48}, {32, 4, 3, 3}, {5, 400}, {200, 300}, {300, 250}};
  const MethodEntry& entry = find_method(choice.method);
  const OptionMap options = complete_options(entry, choice.options);
  const std::unique_ptr<Method> method = entry.create(options);
  Shapes taken;
  for (const auto& shape : all) {
    const Parameter parameter = {"weight", at::zeros(shape)};
    if (method->make_state(parameter, options) != nullptr) taken.push_back(shape);
  }
  return taken.empty() || method->carries_uncompressed() ? all : taken;
}

// Ordinary steps, and steps in which a worker did not use a parameter, or nobody did, or a gradient
// was not finite: at first, after steps that left something pending, and twice in a row.
Gradients gradients_of(int64_t step, const Shapes& shapes, at::ScalarType type) {
  Gradients gradients = random_gradients(3, step, shapes);
  const size_t last = shapes.size() - 1;
  if (step == 2) gradients[1][last].zero_();
  if (step == 3) {
    for (auto& of_worker : gradients) of_worker[last - 1].zero_();
  }
  if (step == 0 || step == 4 || step == 5) {
    gradients[1][last].view(-1)[gradients[1][last].numel() / 2] = step == 5 ? kNan : kInfinity;
  }
  for (auto& of_worker : gradients) {
    for (at::Tensor& gradient : of_worker) gradient = gradient.to(type);
  }
  return gradients;
}

// The results of all steps and the residuals after each: [step][parameter].
struct History {
  std::vector<std::vector<at::Tensor>> results;
  std::vector<std::vector<at::Tensor>> residuals;
};

History history_of(const Choice& choice, at::ScalarType type, const DeviceCode& code) {
  const ForceCode forced(code);
  const Shapes shapes = shapes_for(choice);
  std::optional<SimulatedWorld> world;
  world.emplace(choice.method, choice.options, 3, shapes, type);
  History history;
  for (int64_t step = 0; step < 9; ++step) {
    const Gradients results = world->step(gradients_of(step, shapes, type));
    expect_alike(results);
    history.results.push_back(results[0]);
    auto& residuals = history.residuals.emplace_back();
    for (size_t i = 0; i < shapes.size(); ++i) residuals.push_back(world->residual(0, i));
    if (step == 6) {
      SimulatedWorld resumed(choice.method, choice.options, 3, shapes, type);
      resumed.resume_from(*world);
      world.emplace(std::move(resumed));
    }
  }
  return history;
}

class BothCodes : public testing::TestWithParam<Choice> {};

INSTANTIATE_TEST_SUITE_P(Registry, BothCodes, testing::ValuesIn(all_choices()),
                         [](const auto& info) { return info.param.name; });

// Every step begins with the same states in both worlds: where a payload is rounded to few bits, a
// last bit may decide about a level, and over several steps that would grow.
TEST_P(BothCodes, GiveTheSameUpToRounding) {
  const kernels::WithoutBf16 as_aten_does;
  const Shapes shapes = shapes_for(GetParam());
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    const double of_gradient = type == at::kBFloat16 ? 2e-2 : type == at::kHalf ? 2e-3 : 5e-5;
    const double tolerance = std::max(GetParam().rounding(), of_gradient);
    std::optional<SimulatedWorld> kernel_world;
    std::optional<SimulatedWorld> aten_world;
    const auto make = [&](const DeviceCode& code, std::optional<SimulatedWorld>& world) {
      const ForceCode forced(code);
      world.emplace(GetParam().method, GetParam().options, 3, shapes, type);
    };
    make(kernel_code(), kernel_world);
    make(aten_code(), aten_world);
    for (int64_t step = 0; step < 9; ++step) {
      const auto results_with = [&](const DeviceCode& code, SimulatedWorld& world) {
        const ForceCode forced(code);
        const Gradients results = world.step(gradients_of(step, shapes, type));
        expect_alike(results);
        return results[0];
      };
      const auto wanted = results_with(kernel_code(), *kernel_world);
      const auto found = results_with(aten_code(), *aten_world);
      for (size_t i = 0; i < shapes.size(); ++i) {
        SCOPED_TRACE("step " + std::to_string(step) + ", parameter " + std::to_string(i));
        EXPECT_EQ(found[i].scalar_type(), type);
        EXPECT_TRUE(found[i].isnan().equal(wanted[i].isnan()));
        EXPECT_LT(distance(found[i].nan_to_num(), wanted[i].nan_to_num()), tolerance);
        // Residuals are of the magnitude of the gradients or larger.
        const at::Tensor difference = aten_world->residual(0, i) - kernel_world->residual(0, i);
        EXPECT_LT(difference.abs().max().item<double>(), 10 * tolerance);
      }
      aten_world->resume_from(*kernel_world);
    }
  }
}

// The kernels choose a SIMD target when the first of them is called. (A few have only one target:
// tests/python/test_architecture.py checks that only the kernel code includes any of them.)
TEST_P(BothCodes, CallNoKernelInAtenOps) {
  hwy::ChosenTarget& target = hwy::GetChosenTarget();
  target.DeInit();
  kernel_code().narrow(at::zeros({8}), at::zeros({8}, at::kHalf));
  if (!target.IsInitialized()) GTEST_SKIP() << "there is nothing to choose from";
  target.DeInit();
  history_of(GetParam(), at::kFloat, aten_code());
  EXPECT_FALSE(target.IsInitialized()) << "a kernel was called";
}

TEST(DeviceCode, NoFunctionOfEitherCodeIsLeftUntested) {
  for (const DeviceCode* code : {&kernel_code(), &aten_code()}) {
    const CountedCode counted(*code);
    for (const Choice& choice : all_choices()) history_of(choice, at::kFloat, counted);
    for (const std::string& function : CountedCode::functions()) {
      EXPECT_GT(counted.calls(function), 0) << function << (code->is_host ? "" : " in ATen ops");
    }
  }
}

TEST(DeviceCode, IsChosenByTheDevice) {
  EXPECT_EQ(&code_for(at::kCPU), &kernel_code());
  EXPECT_EQ(&code_for(at::kCUDA), &aten_code());
  EXPECT_TRUE(is_host(at::kCPU));
  EXPECT_FALSE(is_host(at::kCUDA));
  const ForceCode forced(aten_code());
  EXPECT_EQ(&code_for(at::kCPU), &aten_code());
  EXPECT_FALSE(is_host(at::kCPU));
}

// Nor any other tensor of the gradient's size.
TEST(DeviceCode, KeepsNoResidualWithoutErrorFeedback) {
  const Shapes shapes = {{300, 250}};
  for (const DeviceCode* code : {&kernel_code(), &aten_code()}) {
    const ForceCode forced(*code);
    for (const Choice& choice : all_choices()) {
      const auto feedback = choice.options.find("error_feedback");
      if (feedback == choice.options.end() || std::get<bool>(feedback->second)) continue;
      SCOPED_TRACE(choice.name);
      SimulatedWorld world(choice.method, choice.options, 2, shapes);
      for (int64_t step = 0; step < 3; ++step) world.step(random_gradients(2, step, shapes));
      EXPECT_FALSE(world.state(0, 0).residual().defined());
      for (const StateTensor& kept : world.state(0, 0).tensors()) {
        EXPECT_EQ(kept.role, StateTensor::Role::shared);
        EXPECT_LT(kept.tensor.numel(), 300 * 250 / 2);
      }
    }
  }
}

}  // namespace
}  // namespace gradwire
