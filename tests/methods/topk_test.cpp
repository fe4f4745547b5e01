#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gathered_gradients.h"
#include "simulated_world.h"

namespace gradwire {
namespace {

// Top-k SGD for all workers, by sorting.
class TopkReference {
 public:
  TopkReference(int workers, const Shapes& shapes, double density, at::ScalarType type,
                bool feedback)
      : density_(density), type_(type), feedback_(feedback), errors_(workers) {
    for (Tensors& of_worker : errors_) {
      for (const auto& shape : shapes) of_worker.push_back(at::zeros(shape));
    }
  }

  Tensors step(const std::vector<Tensors>& gradients) {
    Tensors results;
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      at::Tensor result = at::zeros_like(gradients[0][i]);
      for (size_t worker = 0; worker < gradients.size(); ++worker) {
        add(gradients[worker][i].view(-1), errors_[worker][i].view(-1), gradients.size(), result);
      }
      results.push_back(result);
    }
    return results;
  }

  const at::Tensor& error(int worker, size_t parameter) const { return errors_[worker][parameter]; }

 private:
  void add(const at::Tensor& gradient, at::Tensor error, size_t workers, at::Tensor& result) const {
    const at::Tensor total = gradient + error;
    const auto* values = total.const_data_ptr<float>();
    const int64_t n = total.numel();
    const auto k = std::max<int64_t>(1, static_cast<int64_t>(std::floor(density_ * n + 0.5)));
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::partial_sort(order, order.begin() + k, [&](int64_t a, int64_t b) {
      const float difference = std::abs(values[a]) - std::abs(values[b]);
      return difference > 0 || (difference == 0 && a < b);
    });
    const double largest = type_ == at::kHalf ? 65504 : 0x1.FEp127;
    const at::Tensor rounded =
        type_ == at::kFloat ? total : total.clamp(-largest, largest).to(type_).to(at::kFloat);
    const auto* sent = rounded.const_data_ptr<float>();
    auto* sum = result.mutable_data_ptr<float>();
    auto* left = error.mutable_data_ptr<float>();
    if (feedback_) error.copy_(total);
    for (int64_t s = 0; s < k; ++s) {
      const int64_t i = order[s];
      if (feedback_) left[i] = values[i] - sent[i];
      const float share = sent[i] * (1.0F / static_cast<float>(workers));
      sum[i] += share;
    }
  }

  double density_;
  at::ScalarType type_;
  bool feedback_;
  std::vector<Tensors> errors_;
};

void compare(int workers, const Shapes& shapes, double density, const std::string& dtype,
             bool feedback, double magnitude = 1) {
  const at::ScalarType type =
      dtype == "fp32" ? at::kFloat : (dtype == "bf16" ? at::kBFloat16 : at::kHalf);
  SimulatedWorld world("topk",
                       {{"density", density}, {"dtype", dtype}, {"error_feedback", feedback}},
                       workers, shapes);
  TopkReference reference(workers, shapes, density, type, feedback);
  for (int step = 0; step < 10; ++step) {
    auto gradients = gradients_of_step(workers, step, shapes);
    for (Tensors& of_worker : gradients) {
      for (at::Tensor& gradient : of_worker) gradient.mul_(magnitude);
    }
    SCOPED_TRACE("step " + std::to_string(step));
    expect_equal_step(world, reference, gradients);
  }
}

TEST(Topk, EqualsTheReference) {
  for (const int workers : {1, 2, 3, 4}) compare(workers, kShapes, 0.01, "fp32", true);
}

TEST(Topk, EveryDensity) {
  for (const double density : {1e-9, 0.001, 0.02, 0.5, 1.0}) {
    compare(2, {{7}, {64, 48}, {16, 3, 3}}, density, "fp32", true);
  }
}

TEST(Topk, WithoutErrorFeedback) { compare(3, kShapes, 0.01, "fp32", false); }

TEST(Topk, RoundedValues) {
  for (const char* dtype : {"bf16", "fp16"}) {
    compare(2, {{7}, {64, 48}, {16, 3, 3}}, 0.05, dtype, true);
    compare(2, {{7}, {64, 48}, {16, 3, 3}}, 0.05, dtype, false);
    compare(2, {{64, 48}}, 0.05, dtype, true, 1e6);   // beyond fp16's range
    compare(2, {{64, 48}}, 0.05, dtype, true, 1e-8);  // below it
  }
}

TEST(Topk, TiesGoToTheLowerIndex) {
  SimulatedWorld world("topk", {{"density", 0.25}}, 1, {{4, 10}});
  at::Tensor gradient = at::ones({4, 10});
  gradient[0][3] = -1;
  gradient[3][9] = 2;
  const at::Tensor result = world.step({{gradient}})[0][0];
  at::Tensor expected = at::zeros({4, 10});
  expected[0].narrow(0, 0, 9).fill_(1);
  expected[0][3] = -1;
  expected[3][9] = 2;
  EXPECT_TRUE(result.equal(expected));
}

// The positions of one in a hundred cost 9 bits at most, so 1 % density sends about 40 + 9 bits.
TEST(Topk, SendsWhatItPromises) {
  SimulatedWorld world("topk", {}, 2, {{1000, 1000}});
  for (int step = 0; step < 3; ++step) world.step(gradients_of_step(2, step, {{1000, 1000}}));
  EXPECT_LT(world.payload_bytes()[0][0], 10000 * 41 / 8 * 1.03);
  SimulatedWorld halves("topk", {{"dtype", std::string("bf16")}}, 2, {{1000, 1000}});
  for (int step = 0; step < 3; ++step) halves.step(gradients_of_step(2, step, {{1000, 1000}}));
  EXPECT_LT(halves.payload_bytes()[0][0], 10000 * 25 / 8 * 1.03);
}

TEST(Topk, RejectsWrongOptions) {
  const MethodEntry& entry = find_method("topk");
  for (const OptionMap& wrong :
       {OptionMap{{"density", 0.0}}, OptionMap{{"density", 1.5}},
        OptionMap{{"dtype", std::string("fp64")}}, OptionMap{{"rank", int64_t{4}}}}) {
    EXPECT_THROW(complete_options("topk", entry.options, wrong), std::invalid_argument);
  }
}

}  // namespace
}  // namespace gradwire
