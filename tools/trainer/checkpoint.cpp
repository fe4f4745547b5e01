#include "trainer/checkpoint.h"

#include <fcntl.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace gradwire::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKept = 2;

using Dictionary = c10::impl::GenericDict;

Dictionary empty_dictionary() { return Dictionary(c10::StringType::get(), c10::AnyType::get()); }

torch::Tensor as_bytes(const std::string& text) {
  return torch::from_blob(const_cast<char*>(text.data()), {static_cast<int64_t>(text.size())},
                          torch::kUInt8)
      .clone();
}

std::string as_text(const torch::Tensor& bytes) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
          static_cast<size_t>(bytes.numel())};
}

torch::OrderedDict<std::string, torch::Tensor> tensors_of(const Model& model) {
  auto tensors = model.named_parameters();
  tensors.update(model.named_buffers());
  return tensors;
}

// Writes another file, forces it to the disk, then renames it.
void write_whole(const fs::path& file, const std::vector<char>& content) {
  fs::path beside = file;
  beside += ".new";
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  bool written = descriptor >= 0;
  for (size_t done = 0; written && done < content.size();) {
    const ssize_t count = ::write(descriptor, content.data() + done, content.size() - done);
    written = count > 0;
    done += written ? static_cast<size_t>(count) : 0;
  }
  written = written && ::fsync(descriptor) == 0;
  if (descriptor >= 0) ::close(descriptor);
  if (!written) throw std::runtime_error(beside.string() + " cannot be written");
  fs::rename(beside, file);
}

std::vector<char> read_whole(const fs::path& file) {
  std::ifstream input(file, std::ios::binary);
  std::vector<char> content{std::istreambuf_iterator<char>(input), {}};
  if (!input) throw std::runtime_error(file.string() + " cannot be read");
  return content;
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, int worker, nlohmann::json settings)
    : folder_(std::move(folder)), worker_(worker), settings_(std::move(settings)) {
  fs::create_directories(folder_);
}

void CheckpointFolder::require_empty() const {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (!entry.path().filename().string().starts_with("step")) continue;
    throw std::invalid_argument(folder_.string() +
                                " has checkpoints already: go on from them with --resume, or name "
                                "another folder");
  }
}

void CheckpointFolder::require_same_settings(int64_t step) const {
  const auto content = torch::pickle_load(read_whole(file(step))).toGenericDict();
  const auto saved = nlohmann::json::parse(content.at("settings").toStringRef());
  for (const auto& [name, value] : settings_.items()) {
    const nlohmann::json before = saved.value(name, nlohmann::json());
    if (before == value) continue;
    throw std::invalid_argument("--resume: " + folder_.string() + " was saved with " + name + " " +
                                before.dump() + ", here it is " + value.dump());
  }
}

fs::path CheckpointFolder::file(int64_t step) const {
  return folder_ / ("step" + std::to_string(step) + "-worker" + std::to_string(worker_) + ".pt");
}

std::vector<int64_t> CheckpointFolder::saved_steps() const {
  const std::string ending = "-worker" + std::to_string(worker_) + ".pt";
  std::vector<int64_t> steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step") && name.ends_with(ending))
      steps.push_back(std::stoll(name.substr(4)));
  }
  std::ranges::sort(steps);
  return steps;
}

void CheckpointFolder::save(const Checkpoint& checkpoint, const Model& model,
                            const torch::optim::Optimizer& optimizer) const {
  Dictionary content = empty_dictionary();
  content.insert("step", checkpoint.step);
  content.insert("settings", settings_.dump());
  content.insert("progress", checkpoint.progress.dump());
  for (const auto& item : tensors_of(model))
    content.insert("model/" + item.key(), item.value().detach());
  for (const auto& [key, value] : checkpoint.gradwire) content.insert("gradwire/" + key, value);
  std::ostringstream stream;
  torch::save(optimizer, stream);
  content.insert("optimizer", as_bytes(stream.str()));
  write_whole(file(checkpoint.step), torch::pickle_save(content));
  std::vector<int64_t> steps = saved_steps();
  for (size_t i = 0; i + kKept < steps.size(); ++i) fs::remove(file(steps[i]));
}

std::optional<int64_t> CheckpointFolder::last_common_step(c10d::ProcessGroup& group) const {
  const std::vector<int64_t> own = saved_steps();
  if (!own.empty()) require_same_settings(own.back());
  std::vector<at::Tensor> step = {torch::tensor(own.empty() ? int64_t{-1} : own.back())};
  c10d::AllreduceOptions smallest;
  smallest.reduceOp = c10d::ReduceOp::MIN;
  group.allreduce(step, smallest)->wait();
  const auto common = step[0].item<int64_t>();
  if (common < 0) return std::nullopt;
  if (!std::ranges::binary_search(own, common)) {
    throw std::runtime_error("--resume: worker " + std::to_string(worker_) +
                             " has no checkpoint of step " + std::to_string(common) +
                             ", the last step that another worker has saved");
  }
  return common;
}

Checkpoint CheckpointFolder::load(int64_t step, Model& model,
                                  torch::optim::Optimizer& optimizer) const {
  const fs::path path = file(step);
  try {
    const auto content = torch::pickle_load(read_whole(path)).toGenericDict();
    const torch::NoGradGuard no_grad;
    for (auto& item : tensors_of(model)) {
      item.value().copy_(content.at("model/" + item.key()).toTensor());
    }
    std::istringstream stream(as_text(content.at("optimizer").toTensor()));
    torch::load(optimizer, stream);
    Checkpoint checkpoint{.step = content.at("step").toInt(),
                          .progress = nlohmann::json::parse(content.at("progress").toStringRef()),
                          .gradwire = {}};
    const std::string prefix = "gradwire/";
    for (const auto& item : content) {
      const std::string& key = item.key().toStringRef();
      if (key.starts_with(prefix)) checkpoint.gradwire[key.substr(prefix.size())] = item.value();
    }
    return checkpoint;
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() +
                             " is not a checkpoint of this training: " + error.what());
  }
}

}  // namespace gradwire::trainer
