#include "gradwire/distributed_data_parallel.h"

#include <torch/nn/modules/embedding.h>
#include <torch/csrc/distributed/c10d/logger.hpp>

#include <iostream>
#include <set>
#include <stdexcept>

#include "gradwire/process_group.h"

namespace gradwire {
namespace {

constexpr size_t kBroadcastBytes = 250UL * 1024 * 1024;

size_t bytes_of(double mebibytes) { return static_cast<size_t>(mebibytes * 1024 * 1024); }

std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& module) {
  std::vector<NamedParameter> trainable;
  for (const auto& parameter : module.named_parameters()) {
    if (parameter.value().requires_grad())
      trainable.push_back({parameter.key(), parameter.value()});
  }
  return trainable;
}

void mark_sparse(const torch::nn::Module& module, std::vector<NamedParameter>& parameters) {
  std::set<const c10::TensorImpl*> weights;
  for (const auto& part : module.modules()) {
    if (const auto* embedding = part->as<torch::nn::Embedding>();
        embedding != nullptr && embedding->options.sparse()) {
      weights.insert(embedding->weight.unsafeGetTensorImpl());
    }
    if (const auto* bag = part->as<torch::nn::EmbeddingBag>();
        bag != nullptr && bag->options.sparse()) {
      weights.insert(bag->weight.unsafeGetTensorImpl());
    }
  }
  for (NamedParameter& parameter : parameters) {
    parameter.expects_sparse = weights.contains(parameter.tensor.unsafeGetTensorImpl());
  }
}

std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<NamedParameter>& parameters,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                            const DataParallelOptions& options) {
  std::vector<at::Tensor> tensors;
  std::vector<bool> expect_sparse;
  std::unordered_map<size_t, std::string> names;
  for (const NamedParameter& parameter : parameters) {
    names[tensors.size()] = parameter.name;
    tensors.push_back(parameter.tensor);
    expect_sparse.push_back(parameter.expects_sparse);
  }
  const size_t cap = bytes_of(options.bucket_cap_mb);
  const size_t first_cap = bytes_of(options.first_bucket_cap_mb);
  // Until the Reducer has seen in which order gradients arrive, the reverse of the order of
  // construction is the best guess; the small first bucket starts the network early.
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(tensors, {first_cap, cap}, expect_sparse);
  std::reverse(buckets.begin(), buckets.end());
  return std::make_shared<c10d::Reducer>(
      tensors, buckets, group, expect_sparse, static_cast<int64_t>(cap),
      options.find_unused_parameters, options.gradient_as_bucket_view, names,
      static_cast<int64_t>(first_cap), /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

}  // namespace

DataParallelCore::DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                                   c10::intrusive_ptr<c10d::ProcessGroup> group,
                                   const Request& request, const DataParallelOptions& options)
    : module_(std::move(module)), group_(std::move(group)), options_(options) {
  std::vector<NamedParameter> parameters = trainable_parameters(*module_);
  if (parameters.empty()) {
    const std::string reason = "DistributedDataParallel: the module has no parameter to train";
    Attachment::announce_failure(group_, reason);
    throw std::invalid_argument(reason);
  }
  mark_sparse(*module_, parameters);
  std::vector<at::Tensor> tensors;
  for (const NamedParameter& parameter : parameters) tensors.push_back(parameter.tensor);

  reducer_ = make_reducer(parameters, group_, options_);
  // The Reducer uses its logger without a check where it searches for unused parameters.
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  logger_->set_construction_data_and_log(module_->name(), /*device_ids=*/{}, /*output_device=*/-1,
                                         options_.broadcast_buffers, /*has_sync_bn=*/false,
                                         /*static_graph=*/false);
  reducer_->set_logger(logger_);
  // The workers agree before the first collective, which would fail with different models.
  const MakeGroup further_group = [this] { return make_further_group(*group_); };
  attachment_ = Attachment::attach(
      reducer_, group_, parameters, request,
      options_.make_group ? options_.make_group : further_group,
      {bytes_of(options_.first_bucket_cap_mb), bytes_of(options_.bucket_cap_mb)}, logger_);

  std::vector<at::Tensor> everything;
  for (const at::Tensor& parameter : module_->parameters())
    everything.push_back(parameter.detach());
  for (const at::Tensor& buffer : module_->buffers()) everything.push_back(buffer.detach());
  broadcast(everything);
}

DataParallelCore::~DataParallelCore() { reducer_->remove_autograd_hooks(); }

void DataParallelCore::broadcast(const std::vector<at::Tensor>& tensors) const {
  if (!tensors.empty()) c10d::broadcast_coalesced(group_, tensors, kBroadcastBytes, /*rank=*/0);
}

void DataParallelCore::before_forward() {
  if (!at::GradMode::is_enabled()) return;
  if (synchronises_) {
    if (module_->is_training()) {
      if (const std::string message = attachment_->before_step(); !message.empty()) {
        std::clog << message << std::endl;
      }
    }
    logger_->set_runtime_stats_and_log();  // logs the step before
    reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();
    if (options_.broadcast_buffers && module_->is_training()) broadcast(module_->buffers());
  }
}

void DataParallelCore::after_forward(const std::vector<at::Tensor>& outputs) {
  if (!at::GradMode::is_enabled() || !synchronises_) return;
  reducer_->prepare_for_backward(options_.find_unused_parameters ? outputs
                                                                 : std::vector<at::Tensor>{});
}

}  // namespace gradwire
