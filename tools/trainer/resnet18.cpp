// ResNet-18 for small images. Unlike the published one, its first convolution is 3 x 3 and it has
// no pooling before the first block.

#include "trainer/models.h"

namespace gradwire::trainer {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(int64_t from, int64_t to, int64_t size, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(from, to, size).stride(stride).padding(size / 2).bias(false));
}

struct BlockImpl : nn::Module {
  BlockImpl(int64_t from, int64_t to, int64_t stride)
      : conv1(register_module("conv1", convolution(from, to, 3, stride))),
        norm1(register_module("norm1", nn::BatchNorm2d(to))),
        conv2(register_module("conv2", convolution(to, to, 3, 1))),
        norm2(register_module("norm2", nn::BatchNorm2d(to))) {
    if (from != to || stride != 1) {
      shortcut = register_module(
          "shortcut", nn::Sequential(convolution(from, to, 1, stride), nn::BatchNorm2d(to)));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor through = norm2(conv2(torch::relu(norm1(conv1(x)))));
    return torch::relu(through + (shortcut.is_empty() ? x : shortcut->forward(x)));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;
  nn::Sequential shortcut = nullptr;
};
TORCH_MODULE(Block);

struct Resnet18 : Model {
  Resnet18(int64_t channels, int64_t classes)
      : conv(register_module("conv", convolution(channels, 64, 3, 1))),
        norm(register_module("norm", nn::BatchNorm2d(64))),
        dense(register_module("dense", nn::Linear(512, classes))) {
    int64_t width = 64;
    for (const int64_t next : {64, 128, 256, 512}) {
      for (const bool first : {true, false}) {
        blocks->push_back(Block(width, next, first && next != 64 ? 2 : 1));
        width = next;
      }
    }
    register_module("blocks", blocks);
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = blocks->forward(torch::relu(norm(conv(input))));
    return dense(x.mean({2, 3}));
  }
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  nn::Sequential blocks;
  nn::Linear dense;
};

}  // namespace

std::shared_ptr<Model> make_resnet18(int64_t channels, int64_t classes) {
  return std::make_shared<Resnet18>(channels, classes);
}

}  // namespace gradwire::trainer
