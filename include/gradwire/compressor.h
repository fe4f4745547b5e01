#pragma once

#include <torch/csrc/api/include/torch/ordered_dict.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gradwire/export.h"
#include "gradwire/options.h"
#include "gradwire/process_group.h"
#include "gradwire/state.h"
#include "gradwire/stats.h"

namespace gradwire {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
  bool expects_sparse = false;  // its gradient is a sparse tensor
};

// The explicit object: compresses and averages named gradients over a process group. It needs no
// DistributedDataParallel and no autograd, so it serves training loops and optimizers that
// synchronise gradients by themselves.
//
//   gradwire::Compressor compressor(model->named_parameters(), group, {.method = "topk"});
//   ...
//   compressor.all_reduce({{"fc.weight", g1}, {"fc.bias", g2}});  // both hold the common mean now
class GRADWIRE_EXPORT Compressor {
 public:
  using Gradients = std::vector<std::pair<std::string, at::Tensor>>;

  // Agrees with the other workers of the group on method, options and parameters. Collective.
  //   std::invalid_argument   the request is wrong here; the other workers get a PeerError
  //   PeerError               workers disagree, or one failed or never came
  Compressor(const torch::OrderedDict<std::string, at::Tensor>& parameters,
             const c10::intrusive_ptr<c10d::ProcessGroup>& group, const Options& options);
  // The same for a request that comes by names. `make_group` makes a further process group of the
  // same workers; by default it is make_further_group().
  static std::unique_ptr<Compressor> make(const std::vector<NamedParameter>& parameters,
                                          const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                          const Request& request, const MakeGroup& make_group);
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // Encodes these gradients and sends them on their way; they must not be touched before finish().
  // A step may consist of several parts, started in the same order on every worker. A parameter
  // that gets no gradient in a step is left out by all workers, or given as zeros by those that did
  // not use it. Throws std::invalid_argument for a name or a shape that the model does not have.
  void start(const Gradients& gradients);
  // Waits for all parts of the step: their tensors then hold the mean. The step is over.
  void finish();
  // A step of one part.
  void all_reduce(const Gradients& gradients);

  // Between steps. A state that does not fit is refused with a std::invalid_argument that names the
  // difference, and changes nothing.
  State state() const;
  void load_state(const State& state);

  // Costs microseconds, from any thread, also while a step waits for the network.
  Stats stats() const;
  // The norm of all that this worker keeps back. It passes over all residuals; between steps.
  double residual_norm() const;
  // One line: the method, the workers, the steps and the rates.
  std::string describe() const;

 private:
  struct Impl;
  explicit Compressor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradwire
