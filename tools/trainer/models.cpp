#include "trainer/models.h"

#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>

#include "trainer/batches.h"

namespace gradwire::trainer {
namespace {

namespace nn = torch::nn;

int64_t features_of(const data::Dataset& dataset) {
  return std::accumulate(dataset.sample_shape.begin(), dataset.sample_shape.end(), int64_t{1},
                         std::multiplies<>());
}

// Linear layers of these widths with ReLU in between.
struct Dense : Model {
  explicit Dense(const std::vector<int64_t>& widths) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), nn::Linear(widths[i], widths[i + 1])));
    }
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = layers[0](input.flatten(1));
    for (size_t i = 1; i < layers.size(); ++i) x = layers[i](torch::relu(x));
    return x;
  }
  std::vector<nn::Linear> layers;
};

// Two or three convolutions, each with pooling, and two dense layers. Images have 28 x 28 or 32 x
// 32 pixels.
struct Convolutional : Model {
  explicit Convolutional(const data::Dataset& dataset) {
    int64_t channels = dataset.sample_shape[0];
    int64_t side = dataset.sample_shape[1];
    const std::vector<int64_t> widths =
        channels == 1 ? std::vector<int64_t>{32, 64} : std::vector<int64_t>{32, 64, 64};
    for (const int64_t width : widths) {
      convolutions.push_back(register_module("conv" + std::to_string(convolutions.size() + 1),
                                             nn::Conv2d(channels, width, 3)));
      channels = width;
      side = (side - 2) / 2;
    }
    dense1 = register_module("dense1", nn::Linear(channels * side * side, 128));
    dense2 = register_module("dense2", nn::Linear(128, dataset.classes));
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = input;
    for (nn::Conv2d& convolution : convolutions) {
      x = torch::relu(torch::max_pool2d(convolution(x), 2));
    }
    return dense2(torch::relu(dense1(x.flatten(1))));
  }
  std::vector<nn::Conv2d> convolutions;
  nn::Linear dense1 = nullptr;
  nn::Linear dense2 = nullptr;
};

struct Recurrent : Model {
  explicit Recurrent(int64_t characters)
      : embedding(register_module("embedding", nn::Embedding(characters, 64))),
        lstm(register_module("lstm",
                             nn::LSTM(nn::LSTMOptions(64, 128).num_layers(2).batch_first(true)))),
        dense(register_module("dense", nn::Linear(128, characters))) {}
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor hidden = std::get<0>(lstm(embedding(input)));
    return dense(hidden.reshape({-1, 128}));
  }
  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear dense;
};

struct Recipe {
  std::vector<data::Kind> kinds;
  const char* needs;
  std::function<std::shared_ptr<Model>(const data::Dataset&)> make;
};

const std::map<std::string, Recipe>& recipes() {
  using data::Kind;
  static const std::map<std::string, Recipe> all = {
      {"mlp",
       {{Kind::images, Kind::frames},
        "images or speech",
        [](const auto& set) {
          return std::make_shared<Dense>(
              std::vector<int64_t>{features_of(set), 512, 256, set.classes});
        }}},
      {"cnn",
       {{Kind::images},
        "images",
        [](const auto& set) { return std::make_shared<Convolutional>(set); }}},
      {"resnet18",
       {{Kind::images},
        "images",
        [](const auto& set) { return make_resnet18(set.sample_shape[0], set.classes); }}},
      {"lstm",
       {{Kind::characters},
        "characters",
        [](const auto& set) { return std::make_shared<Recurrent>(set.classes); }}},
      {"gpt",
       {{Kind::characters},
        "characters",
        [](const auto& set) { return make_gpt(set.classes, kStretch); }}},
      {"dnn", {{Kind::frames}, "speech", [](const auto& set) {
                 return std::make_shared<Dense>(
                     std::vector<int64_t>{features_of(set), 512, 512, 512, 512, set.classes});
               }}}};
  return all;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, recipe] : recipes()) names.push_back(name);
  return names;
}

std::shared_ptr<Model> make_model(const std::string& name, const data::Dataset& dataset) {
  const auto found = recipes().find(name);
  if (found == recipes().end()) {
    std::string known;
    for (const std::string& each : model_names()) known += (known.empty() ? "" : ", ") + each;
    throw std::invalid_argument("--model: there is no \"" + name + "\"; there are: " + known);
  }
  const Recipe& recipe = found->second;
  if (std::find(recipe.kinds.begin(), recipe.kinds.end(), dataset.kind) == recipe.kinds.end()) {
    throw std::invalid_argument("--model: " + name + " is for " + recipe.needs +
                                ", but --data has something else");
  }
  return recipe.make(dataset);
}

}  // namespace gradwire::trainer
