// Trains a small convolutional network on Fashion-MNIST, data-parallel, with compressed gradients.
// A launcher starts it once per worker and sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT:
//
//   torchrun --no-python --nproc-per-node 4 train_fashion_mnist --method acpsgd:rank=32

#include <gradwire/gradwire.h>
#include <torch/torch.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string method = "acpsgd";
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string json_file;
  int64_t epochs = 5;
  int64_t batch = 16;  // per worker
  double lr = 0.03;
  double momentum = 0.9;
  uint64_t seed = 1;
  int64_t train_limit = 60000;
  int64_t test_limit = 10000;
  int threads = 1;
};

void add_options(CLI::App& app, Settings& settings) {
  const auto add_count = [&](const char* name, auto& target, const char* help) {
    app.add_option(name, target, help)->check(CLI::Range(1, 1'000'000));
  };
  app.option_defaults()->always_capture_default();
  app.add_option("--method", settings.method, "NAME[:key=value,...], e.g. acpsgd:rank=32");
  app.add_option("--data", settings.data, "folder with the four gzipped IDX files");
  add_count("--epochs", settings.epochs, "passes through the training samples");
  add_count("--batch", settings.batch, "samples per worker and step");
  app.add_option("--lr", settings.lr, "learning rate")->check(CLI::Range(0.0, 1000.0));
  app.add_option("--momentum", settings.momentum, "of SGD")->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", settings.seed, "of the first weights and of the shuffling");
  add_count("--train-limit", settings.train_limit, "use at most so many training samples");
  add_count("--test-limit", settings.test_limit, "use at most so many test samples");
  add_count("--threads", settings.threads, "of computation, per worker");
  app.add_option("--json", settings.json_file, "worker 0 writes its results to this file");
}

// ---- the data ----

struct Dataset {
  torch::Tensor images;  // n x 1 x 28 x 28, bytes
  torch::Tensor labels;  // n
};

// An IDX file of bytes: a magic number that ends in the count of dimensions, these, then the data.
torch::Tensor read_idx(const std::string& file, const std::vector<int64_t>& sample_shape) {
  const auto fail = [&](const std::string& reason) {
    throw std::runtime_error(file + ": " + reason);
  };
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> input(gzopen(file.c_str(), "rb"), gzclose);
  if (input == nullptr) fail("cannot be opened");
  const auto read = [&](void* target, int64_t bytes, const char* what) {
    if (gzread(input.get(), target, static_cast<unsigned>(bytes)) != bytes) {
      fail(std::string("ends within, or is damaged in, its ") + what);
    }
  };
  const auto number = [&] {
    unsigned char bytes[4];
    read(bytes, 4, "header");
    return int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
  };

  const auto dimensions = static_cast<int64_t>(sample_shape.size()) + 1;
  const int64_t magic = 0x0800 + dimensions;  // 08: unsigned bytes
  if (const int64_t found = number(); found != magic) {
    fail("its magic number is " + std::to_string(found) + ", not " + std::to_string(magic));
  }
  std::vector<int64_t> shape = {number()};
  if (shape[0] < 1 || shape[0] > 1'000'000) fail("claims to hold none or too many samples");
  for (const int64_t expected : sample_shape) {
    const int64_t found = number();
    if (found != expected) {
      fail("its samples measure " + std::to_string(found) + ", not " + std::to_string(expected));
    }
    shape.push_back(found);
  }
  torch::Tensor data = torch::empty(shape, torch::kUInt8);
  read(data.data_ptr<uint8_t>(), data.numel(), "data");
  char rest = 0;
  // Reading past the end is also what makes zlib compare the checksum.
  if (gzread(input.get(), &rest, 1) != 0) fail("has more data than its header says, or is damaged");
  return data;
}

Dataset load(const std::string& folder, const std::string& part, int64_t limit) {
  const std::string labels_file = folder + "/" + part + "-labels-idx1-ubyte.gz";
  const std::string images_file = folder + "/" + part + "-images-idx3-ubyte.gz";
  torch::Tensor labels = read_idx(labels_file, {});
  torch::Tensor images = read_idx(images_file, {28, 28});
  if (labels.size(0) != images.size(0)) {
    throw std::runtime_error(labels_file + ": its number of labels, " +
                             std::to_string(labels.size(0)) + ", is not that of the images, " +
                             std::to_string(images.size(0)));
  }
  if (labels.max().item<int64_t>() > 9) {
    throw std::runtime_error(labels_file + ": there is a label above 9");
  }
  const int64_t samples = std::min(limit, labels.size(0));
  return {images.slice(0, 0, samples).unsqueeze(1), labels.slice(0, 0, samples).to(torch::kLong)};
}

torch::Tensor normalised(const torch::Tensor& images) {
  constexpr double kMean = 0.286;  // of the training pixels, in [0, 1], as is the deviation
  constexpr double kDeviation = 0.353;
  return images.to(torch::kFloat).div_(255).sub_(kMean).div_(kDeviation);
}

// ---- the model ----

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2(x), 2));
    x = torch::relu(dense1(x.flatten(1)));
    return torch::log_softmax(dense2(x), 1);
  }

  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(1, 32, 3));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(32, 64, 3));
  torch::nn::Linear dense1 = register_module("dense1", torch::nn::Linear(64 * 5 * 5, 128));
  torch::nn::Linear dense2 = register_module("dense2", torch::nn::Linear(128, 10));
};
TORCH_MODULE(Net);

using ParallelNet = gradwire::DistributedDataParallel<Net>;

// ---- the method, from the command line ----

template <typename Value>
void parse(std::string text, std::optional<Value>& target) {
  // Python's True and False, as gradwire::methods() describes them, are welcome too.
  if (std::is_same_v<Value, bool> && !text.empty())
    text[0] = static_cast<char>(std::tolower(text[0]));
  std::istringstream input(text);
  Value value;
  if (!(input >> std::boolalpha >> value) || input.peek() != EOF) {
    throw std::invalid_argument("a value of the wrong type");
  }
  target = value;
}

// NAME[:key=value,...]. Whether the method has the option is for gradwire to say.
gradwire::Options parse_method(const std::string& text) {
  const size_t colon = text.find(':');
  gradwire::Options options{.method = text.substr(0, colon)};
  const std::map<std::string, std::function<void(const std::string&)>> setters = {
      {"rank", [&](const auto& value) { parse(value, options.rank); }},
      {"min_ratio", [&](const auto& value) { parse(value, options.min_ratio); }},
      {"seed", [&](const auto& value) { parse(value, options.seed); }},
      {"density", [&](const auto& value) { parse(value, options.density); }},
      {"dtype", [&](const auto& value) { parse(value, options.dtype); }},
      {"mode", [&](const auto& value) { parse(value, options.mode); }},
      {"vote_scale", [&](const auto& value) { parse(value, options.vote_scale); }},
      {"bin_conv", [&](const auto& value) { parse(value, options.bin_conv); }},
      {"bin_dense", [&](const auto& value) { parse(value, options.bin_dense); }},
      {"error_feedback", [&](const auto& value) { parse(value, options.error_feedback); }},
      {"momentum", [&](const auto& value) { parse(value, options.momentum); }}};
  std::istringstream rest(colon == std::string::npos ? "" : text.substr(colon + 1));
  for (std::string pair; std::getline(rest, pair, ',');) {
    try {
      const size_t equals = pair.find('=');
      if (equals == std::string::npos) throw std::invalid_argument("no = in it");
      setters.at(pair.substr(0, equals))(pair.substr(equals + 1));
    } catch (const std::out_of_range&) {
      std::string known;
      for (const auto& [name, setter] : setters) known += (known.empty() ? "" : ", ") + name;
      throw std::invalid_argument("--method: \"" + pair + "\" is unknown; the keys are " + known);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("--method: \"" + pair + "\" has " + error.what());
    }
  }
  return options;
}

// ---- training ----

struct Epoch {
  double train_loss = 0;
  std::vector<double> step_seconds;
};

// All workers shuffle alike; each takes its own part of every global batch.
Epoch train_epoch(ParallelNet& ddp, torch::optim::SGD& optimizer, const Dataset& data,
                  const Settings& settings, c10d::ProcessGroup& group, int64_t epoch) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(settings.seed + epoch);
  const torch::Tensor order =
      torch::randperm(data.labels.size(0), generator, torch::TensorOptions(torch::kLong));
  const int64_t global_batch = settings.batch * group.getSize();
  const int64_t steps = data.labels.size(0) / global_batch;
  Epoch result;
  double loss_sum = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const auto begin = Clock::now();
    const int64_t first = step * global_batch + group.getRank() * settings.batch;
    const torch::Tensor chosen = order.slice(0, first, first + settings.batch);
    optimizer.zero_grad();
    const torch::Tensor loss =
        torch::nll_loss(ddp.forward(normalised(data.images.index_select(0, chosen))),
                        data.labels.index_select(0, chosen));
    loss.backward();  // compresses, sends, receives
    optimizer.step();
    loss_sum += loss.item<double>();
    result.step_seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::vector<torch::Tensor> mean = {torch::tensor(loss_sum / static_cast<double>(steps))};
  group.allreduce(mean)->wait();
  result.train_loss = mean[0].item<double>() / group.getSize();
  return result;
}

double test_accuracy(Net& net, const Dataset& data) {
  const torch::NoGradGuard no_grad;
  net->eval();
  constexpr int64_t kBatch = 100;
  int64_t correct = 0;
  for (int64_t first = 0; first < data.labels.size(0); first += kBatch) {
    const torch::Tensor guess =
        net->forward(normalised(data.images.slice(0, first, first + kBatch))).argmax(1);
    correct += guess.eq(data.labels.slice(0, first, first + kBatch)).sum().item<int64_t>();
  }
  net->train();
  return static_cast<double>(correct) / static_cast<double>(data.labels.size(0));
}

double median(const std::vector<double>& values) {
  return torch::tensor(values).quantile(0.5).item<double>();
}

// ---- the results ----

json to_json(const gradwire::Counts& counts) {
  json by_kind;
  for (size_t kind = 0; kind < gradwire::kParameterKindNames.size(); ++kind) {
    by_kind[gradwire::kParameterKindNames[kind]] =
        counts.code_ratio(static_cast<gradwire::ParameterKind>(kind));
  }
  return {{"steps", counts.steps},
          {"payload_bytes", counts.payload_bytes},
          {"gradient_bytes", counts.gradient_bytes},
          {"code_ratio", counts.code_ratio()},
          {"code_ratio_by_kind", by_kind},
          {"sent_bytes", counts.sent_bytes},
          {"dense_bytes", counts.dense_bytes},
          {"wire_ratio", counts.wire_ratio()},
          {"encode_seconds", counts.encode_seconds},
          {"decode_seconds", counts.decode_seconds},
          {"wait_seconds", counts.wait_seconds}};
}

json to_json(const gradwire::Stats& stats) {
  json result = to_json(static_cast<const gradwire::Counts&>(stats));
  result["method"] = stats.method;
  result["plan"] = stats.plan;
  result["recent"] = to_json(stats.recent);
  return result;
}

json to_json(const gradwire::Options& options) {
  json result = json::object();
  for (const auto& [name, value] : gradwire::Request(options).options) {
    std::visit([&, &key = name](const auto& held) { result[key] = held; }, value);
  }
  return result;
}

void write(const std::string& file, const json& report) {
  std::ofstream output(file);
  output << report.dump(2) << '\n';
  if (!output.flush()) throw std::runtime_error(file + ": cannot be written");
}

void train(const Settings& settings) {
  const gradwire::Options options = parse_method(settings.method);
  const Dataset training = load(settings.data, "train", settings.train_limit);
  const Dataset test = load(settings.data, "t10k", settings.test_limit);

  auto group = gradwire::init_process_group();
  if (training.labels.size(0) < settings.batch * group->getSize()) {
    throw std::invalid_argument(
        "there are fewer training samples than one step of all workers takes");
  }
  torch::manual_seed(settings.seed);
  Net net;
  ParallelNet ddp(net, group, options);
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(settings.lr).momentum(settings.momentum));

  std::vector<double> step_seconds;
  json epochs = json::array();
  for (int64_t epoch = 1; epoch <= settings.epochs; ++epoch) {
    const Epoch done = train_epoch(ddp, optimizer, training, settings, *group, epoch);
    if (group->getRank() != 0) continue;
    step_seconds.insert(step_seconds.end(), done.step_seconds.begin(), done.step_seconds.end());
    const double accuracy = test_accuracy(net, test);
    const gradwire::Stats stats = ddp.stats();
    std::printf(
        "epoch %2ld  loss %.4f  test accuracy %5.2f %%  %.4f s/step  %.4f MB/step sent  "
        "compression %.1fx\n",
        epoch, done.train_loss, 100 * accuracy, median(done.step_seconds),
        static_cast<double>(stats.sent_bytes) / static_cast<double>(stats.steps) / 1e6,
        stats.code_ratio());
    std::fflush(stdout);  // whoever watches through a pipe wants to see it now
    epochs.push_back({{"epoch", epoch},
                      {"train_loss", done.train_loss},
                      {"test_accuracy", accuracy},
                      {"seconds", std::reduce(done.step_seconds.begin(), done.step_seconds.end())},
                      {"sent_bytes", stats.sent_bytes}});
  }
  if (group->getRank() != 0 || settings.json_file.empty()) return;
  write(settings.json_file, {{"method", options.method},
                             {"options", to_json(options)},
                             {"workers", group->getSize()},
                             {"steps", step_seconds.size()},
                             {"epochs", epochs},
                             {"seconds_per_step", median(step_seconds)},
                             {"wire", to_json(ddp.stats())}});
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small network on Fashion-MNIST, one of these processes per worker.");
  add_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    torch::set_num_threads(settings.threads);
    train(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_fashion_mnist: %s\n", error.what());
    return 1;
  }
  return 0;
}
