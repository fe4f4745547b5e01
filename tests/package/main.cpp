#include <gradwire/gradwire.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  const auto group = gradwire::init_process_group();
  torch::nn::Linear model(32, 16);
  gradwire::DistributedDataParallel ddp(model, group, {.method = "acpsgd", .rank = 2});
  ddp.forward(torch::ones({4, 32})).sum().backward();
  std::cout << "methods: " << gradwire::methods().size() << ", steps: " << ddp.stats().steps
            << '\n';
}
