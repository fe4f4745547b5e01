#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gradwire/export.h"
#include "gradwire/options.h"
#include "gradwire/stats.h"

namespace gradwire {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// This worker's state: plain tensors, numbers and strings under keys that carry the worker.
using State = std::map<std::string, c10::IValue>;

using MakeGroup = std::function<c10::intrusive_ptr<c10d::ProcessGroup>()>;

class Pipeline;

// The expert part: compression attached to a Reducer, DDP's or one's own. Both the Python attach()
// and the C++ DistributedDataParallel are built on it.
class GRADWIRE_EXPORT Attachment {
 public:
  // Agrees with the other workers of the group on method, options and parameters, then makes every
  // later backward of the reducer go through the method. Collective; once, before the first
  // backward.
  //   std::invalid_argument   the request is wrong here; the other workers get a PeerError
  //   PeerError               workers disagree, or one failed or never came
  // `make_group` makes a further process group of the same workers, for methods that need more than
  // one collective per bucket; called as often as needed, in the same order on every worker.
  static std::shared_ptr<Attachment> attach(const std::shared_ptr<c10d::Reducer>& reducer,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                            const std::vector<NamedParameter>& parameters,
                                            const Request& request, const MakeGroup& make_group);

  // Tells the other workers, which wait in attach(), that this one will not come.
  static void announce_failure(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                               const std::string& reason);

  State state() const;
  void load_state(const State& state);
  Stats stats() const;

 private:
  explicit Attachment(std::shared_ptr<Pipeline> pipeline);
  std::shared_ptr<Pipeline> pipeline_;
};

}  // namespace gradwire
