#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "gradwire/attachment.h"
#include "gradwire/export.h"
#include "gradwire/options.h"

namespace gradwire {

struct DataParallelOptions {
  bool find_unused_parameters = false;  // some parameters get no gradient in some steps
  bool broadcast_buffers = true;        // from worker 0, before the forward of every step
  bool gradient_as_bucket_view = false;
  double bucket_cap_mb = 25;
  double first_bucket_cap_mb = 1;
  // How to make further groups of the same workers, for methods that need more than one collective
  // per bucket. Groups of init_process_group() need nothing here.
  MakeGroup make_group = {};
};

// The part of DistributedDataParallel that does not depend on the module's type.
class GRADWIRE_EXPORT DataParallelCore {
 public:
  DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                   c10::intrusive_ptr<c10d::ProcessGroup> group, const Request& request,
                   const DataParallelOptions& options);
  ~DataParallelCore();
  DataParallelCore(const DataParallelCore&) = delete;
  DataParallelCore& operator=(const DataParallelCore&) = delete;

  void before_forward();
  // `outputs`: the tensors that the loss may be computed from.
  void after_forward(const std::vector<at::Tensor>& outputs);

  bool synchronises() const { return synchronises_; }
  void set_synchronises(bool value) { synchronises_ = value; }
  Attachment& attachment() { return *attachment_; }
  const Attachment& attachment() const { return *attachment_; }

 private:
  void broadcast(const std::vector<at::Tensor>& tensors) const;

  std::shared_ptr<torch::nn::Module> module_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  DataParallelOptions options_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  std::shared_ptr<Attachment> attachment_;
  bool synchronises_ = true;
};

namespace detail {

inline void collect_tensors(const at::Tensor& tensor, std::vector<at::Tensor>& found) {
  if (tensor.defined()) found.push_back(tensor);
}
template <typename... Parts>
void collect_tensors(const std::tuple<Parts...>& parts, std::vector<at::Tensor>& found);
template <typename Range>
requires requires(const Range& range) { range.begin() != range.end(); }
void collect_tensors(const Range& range, std::vector<at::Tensor>& found);
template <typename First, typename Second>
void collect_tensors(const std::pair<First, Second>& pair, std::vector<at::Tensor>& found) {
  collect_tensors(pair.first, found);
  collect_tensors(pair.second, found);
}
// Anything else (a number, a string) holds no tensor.
template <typename Other>
requires(!requires(const Other& other) {
  other.begin() != other.end();
}) void collect_tensors(const Other& /*other*/, std::vector<at::Tensor>& /*found*/) {}

template <typename... Parts>
void collect_tensors(const std::tuple<Parts...>& parts, std::vector<at::Tensor>& found) {
  std::apply([&](const auto&... part) { (collect_tensors(part, found), ...); }, parts);
}
template <typename Range>
requires requires(const Range& range) { range.begin() != range.end(); }
void collect_tensors(const Range& range, std::vector<at::Tensor>& found) {
  for (const auto& element : range) collect_tensors(element, found);
}

// A module comes as std::shared_ptr<NetImpl> or as the holder that TORCH_MODULE(Net) makes.
template <typename Module>
std::shared_ptr<torch::nn::Module> as_base(const std::shared_ptr<Module>& module) {
  return module;
}
template <typename Holder>
requires requires(const Holder& holder) { holder.ptr(); }
std::shared_ptr<torch::nn::Module> as_base(const Holder& holder) { return holder.ptr(); }

}  // namespace detail

// Data parallelism for libtorch: every worker holds a copy of the module and computes gradients
// from its own data; after backward(), `.grad` holds the workers' common result.
//
//   auto group = gradwire::init_process_group();
//   gradwire::DistributedDataParallel ddp(model, group, {.method = "acpsgd", .rank = 32});
//   auto loss = torch::nll_loss(ddp.forward(x), y);
//   loss.backward();
//   optimizer.step();
//
// The constructor gives every worker the parameters and buffers of worker 0. All workers must make
// the same modules in the same order.
template <typename Module>
class DistributedDataParallel {
 public:
  DistributedDataParallel(Module module, c10::intrusive_ptr<c10d::ProcessGroup> group,
                          const Options& options = {}, const DataParallelOptions& parallel = {})
      : module_(std::move(module)),
        core_(detail::as_base(module_), std::move(group), options, parallel) {}

  // Whatever the module's own forward takes and gives. Tensors in what it gives are found in
  // tuples, pairs and containers.
  template <typename... Arguments>
  auto forward(Arguments&&... arguments) {
    core_.before_forward();
    auto output = module_->forward(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor> tensors;
    detail::collect_tensors(output, tensors);
    core_.after_forward(tensors);
    return output;
  }
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  // While the guard lives, gradients accumulate locally and nothing is sent:
  //   { auto guard = ddp.no_sync(); loss(ddp.forward(x0)).backward(); }
  //   loss(ddp.forward(x1)).backward();   // sends the sum of both
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DataParallelCore& core) : core_(core), before_(core.synchronises()) {
      core_.set_synchronises(false);
    }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { core_.set_synchronises(before_); }

   private:
    DataParallelCore& core_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(core_); }

  Module& module() { return module_; }
  State state() const { return core_.attachment().state(); }
  void load_state(const State& state) { core_.attachment().load_state(state); }
  Stats stats() const { return core_.attachment().stats(); }
  double residual_norm() const { return core_.attachment().residual_norm(); }
  std::string profile() const { return core_.attachment().profile(); }  // see Attachment

 private:
  Module module_;
  DataParallelCore core_;
};

}  // namespace gradwire
