#include "planner/model_shapes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>

namespace gradwire::planner {
namespace {

// A model's parameters in the order of its definition, and how many multiplications each takes
// part in, per image or token.
struct ModelShape {
  std::vector<ParameterShape> parameters;
  std::vector<double> work;

  void add(const std::string& name, std::vector<int64_t> shape, double work_of_it) {
    parameters.push_back({name, std::move(shape)});
    work.push_back(work_of_it);
  }
  // A matrix that multiplies each token, and its bias.
  void add_linear(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", {out, in}, static_cast<double>(out * in));
    add(name + ".bias", {out}, 0);
  }
  void add_transposed(const std::string& name, int64_t in, int64_t out) {
    add(name + ".weight", {in, out}, static_cast<double>(out * in));
    add(name + ".bias", {out}, 0);
  }
  void add_norm(const std::string& name, int64_t size) {
    add(name + ".weight", {size}, 0);
    add(name + ".bias", {size}, 0);
  }
};

// As in torchvision, where the 3 x 3 convolution of a block is the one that may have a stride.
class ResnetBuilder {
 public:
  explicit ResnetBuilder(const std::array<int, 4>& blocks) {
    add_convolution("conv1", "bn1", 64, 3, 7, 112);
    int64_t in = 64;
    int64_t input_side = 56;
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
      const int64_t width = int64_t{64} << stage;
      const int64_t side = 56 >> stage;
      for (int block = 0; block < blocks[stage]; ++block) {
        const std::string name =
            "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
        add_convolution(name + "conv1", name + "bn1", width, in, 1, input_side);
        add_convolution(name + "conv2", name + "bn2", width, width, 3, side);
        add_convolution(name + "conv3", name + "bn3", 4 * width, width, 1, side);
        if (block == 0) {
          add_convolution(name + "downsample.0", name + "downsample.1", 4 * width, in, 1, side);
        }
        in = 4 * width;
        input_side = side;
      }
    }
    shape_.add_linear("fc", 1000, in);
  }

  ModelShape take() { return std::move(shape_); }

 private:
  void add_convolution(const std::string& name, const std::string& norm, int64_t out, int64_t in,
                       int64_t kernel, int64_t output_side) {
    const int64_t elements = out * in * kernel * kernel;
    shape_.add(name + ".weight", {out, in, kernel, kernel},
               static_cast<double>(elements * output_side * output_side));
    shape_.add_norm(norm, out);
  }

  ModelShape shape_;
};

// As BertForPreTraining of Hugging Face's transformers, whose output matrix is the word embedding:
// its work is done when backward begins, its gradient is complete when backward ends.
ModelShape bert(int layers, int64_t hidden) {
  constexpr int64_t vocabulary = 30522;
  ModelShape shape;
  shape.add("bert.embeddings.word_embeddings.weight", {vocabulary, hidden}, 0);
  shape.add("bert.embeddings.position_embeddings.weight", {512, hidden}, 0);
  shape.add("bert.embeddings.token_type_embeddings.weight", {2, hidden}, 0);
  shape.add_norm("bert.embeddings.LayerNorm", hidden);
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "bert.encoder.layer." + std::to_string(layer) + ".";
    shape.add_linear(name + "attention.self.query", hidden, hidden);
    shape.add_linear(name + "attention.self.key", hidden, hidden);
    shape.add_linear(name + "attention.self.value", hidden, hidden);
    shape.add_linear(name + "attention.output.dense", hidden, hidden);
    shape.add_norm(name + "attention.output.LayerNorm", hidden);
    shape.add_linear(name + "intermediate.dense", 4 * hidden, hidden);
    shape.add_linear(name + "output.dense", hidden, 4 * hidden);
    shape.add_norm(name + "output.LayerNorm", hidden);
  }
  shape.add_linear("bert.pooler.dense", hidden, hidden);
  shape.add("cls.predictions.bias", {vocabulary}, static_cast<double>(vocabulary * hidden));
  shape.add_linear("cls.predictions.transform.dense", hidden, hidden);
  shape.add_norm("cls.predictions.transform.LayerNorm", hidden);
  shape.add_linear("cls.seq_relationship", 2, hidden);
  return shape;
}

// As GPT2LMHeadModel of Hugging Face's transformers. Its matrices lie transposed, and its output
// matrix is the token embedding, as in bert().
ModelShape gpt2(int layers, int64_t hidden) {
  constexpr int64_t vocabulary = 50257;
  constexpr int64_t positions = 1024;
  ModelShape shape;
  shape.add("transformer.wte.weight", {vocabulary, hidden}, 0);
  shape.add("transformer.wpe.weight", {positions, hidden}, 0);
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "transformer.h." + std::to_string(layer) + ".";
    shape.add_norm(name + "ln_1", hidden);
    shape.add_transposed(name + "attn.c_attn", hidden, 3 * hidden);
    shape.add_transposed(name + "attn.c_proj", hidden, hidden);
    shape.add_norm(name + "ln_2", hidden);
    shape.add_transposed(name + "mlp.c_fc", hidden, 4 * hidden);
    shape.add_transposed(name + "mlp.c_proj", 4 * hidden, hidden);
  }
  shape.add("transformer.ln_f.weight", {hidden}, 0);
  shape.add("transformer.ln_f.bias", {hidden}, static_cast<double>(vocabulary * hidden));
  return shape;
}

struct NamedModel {
  const char* name;
  std::function<ModelShape()> make;
};

const std::array<NamedModel, 5>& models() {
  static const std::array<NamedModel, 5> all = {{
      {"resnet-50",
       [] {
         return ResnetBuilder({3, 4, 6, 3}).take();
       }},
      {"resnet-152",
       [] {
         return ResnetBuilder({3, 8, 36, 3}).take();
       }},
      {"bert-base", [] { return bert(12, 768); }},
      {"bert-large", [] { return bert(24, 1024); }},
      {"gpt2", [] { return gpt2(12, 768); }},
  }};
  return all;
}

ModelShape shape_of(const std::string& model) {
  std::string valid;
  for (const NamedModel& known : models()) {
    if (known.name == model) return known.make();
    valid += (valid.empty() ? "" : ", ") + std::string(known.name);
  }
  throw std::invalid_argument("there is no built-in model \"" + model + "\"; there are " + valid);
}

Profile profile_of(const std::string& name, ModelShape shape, double compute_seconds) {
  Profile profile;
  profile.name = name;
  profile.forward_seconds = compute_seconds / 3;
  profile.backward_seconds = compute_seconds - profile.forward_seconds;
  double all_work = 0;
  for (const double work : shape.work) all_work += work;
  // Backward goes through the parameters from the last to the first.
  std::vector<double> ready(shape.work.size());
  double done = 0;
  for (size_t i = ready.size(); i-- > 0;) {
    done += shape.work[i];
    ready[i] = std::min(1.0, done / all_work) * profile.backward_seconds;
  }
  profile.buckets = ddp_buckets(shape.parameters, ready);
  profile.parameters = std::move(shape.parameters);
  return profile;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const NamedModel& model : models()) names.emplace_back(model.name);
  return names;
}

Profile model_profile(const std::string& model, double compute_seconds) {
  return profile_of(model, shape_of(model), compute_seconds);
}

Profile shapes_profile(std::vector<ParameterShape> parameters, double compute_seconds) {
  const bool has_matrices =
      std::ranges::any_of(parameters, [](const auto& each) { return each.shape.size() >= 2; });
  ModelShape shape;
  for (ParameterShape& each : parameters) {
    const bool works = each.shape.size() >= 2 || !has_matrices;
    const double work = works ? static_cast<double>(each.elements()) : 0;
    shape.add(each.name, std::move(each.shape), work);
  }
  return profile_of("given parameters", std::move(shape), compute_seconds);
}

}  // namespace gradwire::planner
