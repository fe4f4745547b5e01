#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "gradients.h"
#include "simulated_world.h"

namespace gradwire {

// With one thread and with four, the same bytes are sent and the same bits result.
inline void expect_independent_of_threads(const std::string& method, const OptionMap& options) {
  const Shapes shapes = {{700, 1000}, {7}};
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> sent[2];
  std::vector<at::Tensor> results[2];
  for (const int run : {0, 1}) {
    at::set_num_threads(run == 0 ? 1 : 4);
    SimulatedWorld world(method, options, 2, shapes);
    for (int step = 0; step < 3; ++step) {
      Gradients gradients = random_gradients(2, step, shapes);
      if (step == 1) gradients[0][0].view(-1)[500000] = kInfinity;
      results[run].push_back(world.step(gradients)[0][0]);
      for (const at::Tensor& bytes : world.sent()) sent[run].push_back(bytes);
    }
  }
  at::set_num_threads(threads);
  ASSERT_EQ(sent[0].size(), sent[1].size());
  for (size_t i = 0; i < sent[0].size(); ++i) EXPECT_TRUE(sent[0][i].equal(sent[1][i])) << i;
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_TRUE(same_bits(results[0][step], results[1][step])) << "step " << step;
  }
}

}  // namespace gradwire
