#include "gradwire/compressor.h"

#include <set>
#include <stdexcept>
#include <unordered_map>

#include "comm/handshake.h"
#include "engine/agreement.h"
#include "engine/engine.h"
#include "engine/saved_state.h"

namespace gradwire {

struct Compressor::Impl {
  Engine engine;
  std::unordered_map<std::string, size_t> index_of = {};
  std::vector<std::unique_ptr<Part>> parts = {};  // of this step
  std::set<size_t> started = {};                  // parameters of this step

  std::vector<Gradient> checked(const Gradients& gradients) const;
  std::vector<std::unique_ptr<Part>> end_step() {
    started.clear();
    return std::exchange(parts, {});
  }
};

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw std::invalid_argument("gradwire.Compressor: the gradient of \"" + name + "\" " + why);
}

std::vector<NamedParameter> trainable(const torch::OrderedDict<std::string, at::Tensor>& all) {
  std::vector<NamedParameter> parameters;
  for (const auto& parameter : all) {
    if (parameter.value().requires_grad()) {
      parameters.push_back({parameter.key(), parameter.value()});
    }
  }
  return parameters;
}

// What make_routes() does not refuse, or nothing.
std::string mistake_in(const std::vector<Parameter>& parameters,
                       const std::unordered_map<std::string, size_t>& index_of,
                       const Request& request) {
  const std::string who = "gradwire.Compressor: ";
  if (parameters.empty()) return who + "there is no parameter to compress the gradient of";
  if (index_of.size() < parameters.size()) return who + "two parameters have the same name";
  if (request.method == kAuto) {
    return who + "auto decides by the steps of DistributedDataParallel; name another method here";
  }
  return {};
}

}  // namespace

// Everything is checked before anything is sent.
std::vector<Gradient> Compressor::Impl::checked(const Gradients& gradients) const {
  std::vector<Gradient> known;
  std::set<size_t> seen = started;
  for (const auto& [name, tensor] : gradients) {
    const auto found = index_of.find(name);
    if (found == index_of.end()) refuse(name, "belongs to no parameter that was named");
    const at::Tensor& parameter = engine.parameters()[found->second].tensor;
    if (!seen.insert(found->second).second) refuse(name, "has been started in this step already");
    if (!tensor.defined()) refuse(name, "is undefined; leave it out on all workers, or pass zeros");
    if (tensor.sizes() != parameter.sizes() || tensor.scalar_type() != parameter.scalar_type() ||
        tensor.device() != parameter.device()) {
      refuse(name, c10::str("is ", tensor.toString(), " ", tensor.sizes(), " on ", tensor.device(),
                            "; its parameter is ", parameter.toString(), " ", parameter.sizes(),
                            " on ", parameter.device()));
    }
    if (!tensor.is_sparse() && !tensor.is_non_overlapping_and_dense()) {
      refuse(name, "has elements that share memory, or gaps between them; pass a contiguous copy");
    }
    known.push_back({found->second, tensor.is_complex() ? at::view_as_real(tensor) : tensor});
  }
  return known;
}

Compressor::Compressor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Compressor::~Compressor() = default;

Compressor::Compressor(const torch::OrderedDict<std::string, at::Tensor>& parameters,
                       const c10::intrusive_ptr<c10d::ProcessGroup>& group, const Options& options)
    : impl_(std::move(make(trainable(parameters), group, options, [&] {
                        return make_further_group(*group);
                      })->impl_)) {}

std::unique_ptr<Compressor> Compressor::make(const std::vector<NamedParameter>& parameters,
                                             const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                             const Request& request, const MakeGroup& make_group) {
  std::vector<Parameter> ours;
  std::unordered_map<std::string, size_t> index_of;
  for (const NamedParameter& parameter : parameters) {
    index_of[parameter.name] = ours.size();
    ours.push_back({parameter.name, parameter.tensor});
  }
  if (const std::string mistake = mistake_in(ours, index_of, request); !mistake.empty()) {
    Handshake(*group).fail(mistake);
    throw std::invalid_argument(mistake);
  }
  Routes routes = agree_on_routes(*group, request, ours);
  Courier courier(group, make_group, routes.rounds());
  return std::unique_ptr<Compressor>(new Compressor(std::unique_ptr<Impl>(
      new Impl{Engine(std::move(courier), std::move(ours), request, std::move(routes)),
               std::move(index_of)})));
}

void Compressor::start(const Gradients& gradients) {
  const std::vector<Gradient> checked = impl_->checked(gradients);
  if (impl_->parts.empty()) impl_->engine.begin_step();
  try {
    impl_->parts.push_back(impl_->engine.start(checked));
  } catch (...) {
    impl_->end_step();
    throw;
  }
  for (const Gradient& gradient : checked) impl_->started.insert(gradient.parameter);
}

// A step that fails is over as well.
void Compressor::finish() {
  for (const auto& part : impl_->end_step()) impl_->engine.finish(*part);
}

void Compressor::all_reduce(const Gradients& gradients) {
  start(gradients);
  finish();
}

State Compressor::state() const {
  return saved_state::with_worker(impl_->engine.state(), impl_->engine.group()->getRank());
}

void Compressor::load_state(const State& state) {
  const State saved = saved_state::fitting(
      impl_->engine.state(), saved_state::without_worker(state, impl_->engine.group()->getRank()));
  impl_->engine.load_state(saved);
}

Stats Compressor::stats() const { return impl_->engine.counters().stats(); }
double Compressor::residual_norm() const { return impl_->engine.residual_norm(); }
std::string Compressor::describe() const { return impl_->engine.describe(); }

}  // namespace gradwire
