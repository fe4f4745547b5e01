// A small GPT-2 for characters: a decoder-only transformer whose blocks normalise their input. It
// has no dropout. Its head is the embedding itself, as in GPT-2, and not a layer of its own: the
// module then lists the shared matrix once, and DDP sends its gradient when both uses have added to
// it.

#include <cmath>

#include "trainer/models.h"

namespace gradwire::trainer {
namespace {

namespace nn = torch::nn;

constexpr int64_t kLayers = 4;
constexpr int64_t kWidth = 192;
constexpr int64_t kHeads = 4;
constexpr double kDeviation = 0.02;  // of the first weights

struct AttentionImpl : nn::Module {
  AttentionImpl()
      : qkv(register_module("qkv", nn::Linear(kWidth, 3 * kWidth))),
        projection(register_module("projection", nn::Linear(kWidth, kWidth))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    // From {batch, place, 3 * width} to {query, key or value; batch, head, place, width of a head}.
    const torch::Tensor heads =
        qkv(x).view({x.size(0), x.size(1), 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const torch::Tensor mixed =
        at::scaled_dot_product_attention(heads[0], heads[1], heads[2], /*attn_mask=*/{},
                                         /*dropout_p=*/0, /*is_causal=*/true);
    return projection(mixed.transpose(1, 2).flatten(2));
  }
  nn::Linear qkv;
  nn::Linear projection;
};
TORCH_MODULE(Attention);

struct WideningImpl : nn::Module {
  WideningImpl()
      : expansion(register_module("expansion", nn::Linear(kWidth, 4 * kWidth))),
        projection(register_module("projection", nn::Linear(4 * kWidth, kWidth))) {}
  torch::Tensor forward(const torch::Tensor& x) { return projection(torch::gelu(expansion(x))); }
  nn::Linear expansion;
  nn::Linear projection;
};
TORCH_MODULE(Widening);

nn::LayerNorm layer_norm() { return nn::LayerNorm(nn::LayerNormOptions({kWidth})); }

struct DecoderBlockImpl : nn::Module {
  DecoderBlockImpl()
      : norm1(register_module("norm1", layer_norm())),
        attention(register_module("attention", Attention())),
        norm2(register_module("norm2", layer_norm())),
        mlp(register_module("mlp", Widening())) {}
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor attended = x + attention(norm1(x));
    return attended + mlp(norm2(attended));
  }
  nn::LayerNorm norm1;
  Attention attention;
  nn::LayerNorm norm2;
  Widening mlp;
};
TORCH_MODULE(DecoderBlock);

struct Gpt : Model {
  Gpt(int64_t characters, int64_t context)
      : embedding(register_module("embedding", nn::Embedding(characters, kWidth))),
        positions(register_module("positions", nn::Embedding(context, kWidth))),
        norm(register_module("norm", layer_norm())) {
    for (int64_t layer = 0; layer < kLayers; ++layer) blocks->push_back(DecoderBlock());
    register_module("blocks", blocks);
    initialise();
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor places = positions->weight.narrow(0, 0, input.size(1));
    const torch::Tensor x = norm(blocks->forward(embedding(input) + places));
    return torch::nn::functional::linear(x, embedding->weight).flatten(0, 1);
  }

  nn::Embedding embedding;
  nn::Embedding positions;
  nn::Sequential blocks;
  nn::LayerNorm norm;

 private:
  // As in GPT-2. Each block adds two projections to x, so smaller first weights in these keep the
  // size of x the same for any number of blocks.
  void initialise() {
    const double projected = kDeviation / std::sqrt(2.0 * kLayers);
    for (auto& parameter : named_parameters()) {
      const std::string& name = parameter.key();
      if (parameter.value().dim() >= 2) {
        nn::init::normal_(parameter.value(), 0,
                          name.ends_with("projection.weight") ? projected : kDeviation);
      } else if (name.ends_with("bias")) {
        nn::init::zeros_(parameter.value());
      }
    }
  }
};

}  // namespace

std::shared_ptr<Model> make_gpt(int64_t characters, int64_t context) {
  return std::make_shared<Gpt>(characters, context);
}

}  // namespace gradwire::trainer
