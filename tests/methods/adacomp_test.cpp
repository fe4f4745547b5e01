#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gathered_gradients.h"
#include "simulated_world.h"

namespace gradwire {
namespace {

// AdaComp for all workers, bin by bin.
class AdaCompReference {
 public:
  AdaCompReference(int workers, const Shapes& shapes, int64_t bin_conv, int64_t bin_dense,
                   bool feedback)
      : bin_conv_(bin_conv), bin_dense_(bin_dense), feedback_(feedback), errors_(workers) {
    for (Tensors& of_worker : errors_) {
      for (const auto& shape : shapes) of_worker.push_back(at::zeros(shape));
    }
  }

  Tensors step(const std::vector<Tensors>& gradients) {
    Tensors results;
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      at::Tensor result = at::zeros_like(gradients[0][i]);
      const int64_t bin = gradients[0][i].dim() >= 3 ? bin_conv_ : bin_dense_;
      for (size_t worker = 0; worker < gradients.size(); ++worker) {
        add(gradients[worker][i], errors_[worker][i], bin, gradients.size(), result);
      }
      results.push_back(result);
    }
    return results;
  }

  const at::Tensor& error(int worker, size_t parameter) const { return errors_[worker][parameter]; }

 private:
  void add(const at::Tensor& gradient, at::Tensor error, int64_t bin, size_t workers,
           at::Tensor& result) const {
    const int64_t n = gradient.numel();
    const auto* g = gradient.const_data_ptr<float>();
    auto* e = error.mutable_data_ptr<float>();
    std::vector<float> total(n);
    std::vector<int> sent(n, 0);
    double sum = 0;
    for (int64_t begin = 0; begin < n; begin += bin) {
      const int64_t end = std::min(begin + bin, n);
      float gmax = 0;
      for (int64_t i = begin; i < end; ++i) {
        total[i] = e[i] + g[i];
        gmax = std::max(gmax, std::abs(total[i]));
      }
      for (int64_t i = begin; i < end; ++i) {
        const float ahead = total[i] + g[i];
        if (gmax > 0 && std::abs(ahead) >= gmax) sent[i] = total[i] < 0 ? -1 : 1;
      }
      sum += gmax;
    }
    const auto scale = static_cast<float>(sum / static_cast<double>((n + bin - 1) / bin));
    const float share = scale * (1.0F / static_cast<float>(workers));
    auto* out = result.mutable_data_ptr<float>();
    for (int64_t i = 0; i < n; ++i) {
      if (feedback_) e[i] = total[i] - static_cast<float>(sent[i]) * scale;
      out[i] += static_cast<float>(sent[i]) * share;
    }
  }

  int64_t bin_conv_;
  int64_t bin_dense_;
  bool feedback_;
  std::vector<Tensors> errors_;
};

void compare(int workers, const Shapes& shapes, int64_t bin_conv, int64_t bin_dense,
             bool feedback) {
  SimulatedWorld world(
      "adacomp", {{"bin_conv", bin_conv}, {"bin_dense", bin_dense}, {"error_feedback", feedback}},
      workers, shapes);
  AdaCompReference reference(workers, shapes, bin_conv, bin_dense, feedback);
  for (int step = 0; step < 10; ++step) {
    const auto gradients = gradients_of_step(workers, step, shapes);
    SCOPED_TRACE("step " + std::to_string(step));
    expect_equal_step(world, reference, gradients);
  }
}

TEST(Adacomp, EqualsTheReference) {
  for (const int workers : {1, 2, 3, 4}) compare(workers, kShapes, 50, 500, true);
}

TEST(Adacomp, EveryBinLength) {
  for (const int64_t bin : {1, 2, 7, 64, 65, 1000, 200000}) {
    compare(2, {{7}, {64, 48}, {16, 30, 3}}, bin, bin, true);
  }
  compare(2, {{300, 500}}, 50, 130000, true);  // a bin longer than the usual chunk
}

TEST(Adacomp, WithoutErrorFeedback) { compare(3, kShapes, 50, 500, false); }

// An all-zero bin sends nothing; an element that comes to zero may be sent, as plus.
TEST(Adacomp, BinsThatAreZero) {
  SimulatedWorld world("adacomp", {{"bin_dense", int64_t{4}}}, 1, {{12}});
  const at::Tensor gradient =
      at::tensor({0.F, 0.F, 0.F, 0.F, 4.F, 1.F, -3.F, 0.F, 0.F, 0.F, 0.F, 0.F});
  const at::Tensor result = world.step({{gradient}})[0][0];
  const float scale = 4.0F / 3;
  EXPECT_TRUE(
      result.equal(at::tensor({0.F, 0.F, 0.F, 0.F, scale, 0.F, -scale, 0.F, 0.F, 0.F, 0.F, 0.F})));
}

TEST(Adacomp, SendsFarMoreAtFirst) {
  const Shapes shapes = {{1000, 1000}, {256, 256, 3, 3}};
  SimulatedWorld world("adacomp", {}, 2, shapes);
  std::vector<std::vector<double>> ratios;
  for (int step = 0; step < 12; ++step) {
    world.step(gradients_of_step(2, step, shapes));
    EXPECT_EQ(world.sent().size(), 2U) << "an overflow in step " << step;
    auto& of_step = ratios.emplace_back();
    for (size_t i = 0; i < shapes.size(); ++i) {
      of_step.push_back(4.0 * static_cast<double>(c10::multiply_integers(shapes[i])) /
                        static_cast<double>(world.payload_bytes()[0][i]));
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) EXPECT_GT(ratios.back()[i], 1.5 * ratios.front()[i]);
}

TEST(Adacomp, RejectsWrongOptions) {
  const MethodEntry& entry = find_method("adacomp");
  EXPECT_THROW(complete_options("adacomp", entry.options, {{"bin_conv", int64_t{0}}}),
               std::invalid_argument);
  EXPECT_THROW(complete_options("adacomp", entry.options, {{"density", 0.1}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace gradwire
