#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <string>
#include <vector>

#include "gradwire/compressor.h"
#include "gradwire/export.h"
#include "gradwire/options.h"
#include "gradwire/state.h"
#include "gradwire/stats.h"

namespace gradwire {

// The expert part: compression attached to a Reducer, DDP's or one's own. Both the Python attach()
// and the C++ DistributedDataParallel are built on it.
class GRADWIRE_EXPORT Attachment {
 public:
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Agrees with the other workers of the group on method, options and parameters, then makes every
  // later backward of the reducer go through the method. Collective; once, before the first
  // backward.
  //   std::invalid_argument   the request is wrong here; the other workers get a PeerError
  //   PeerError               workers disagree, or one failed or never came
  // `make_group` makes a further process group of the same workers, for methods that need more than
  // one collective per bucket; called as often as needed, in the same order on every worker.
  // `bucket_caps`: the bytes that the Reducer was told to fill its first bucket up to, its second,
  // ... (the last goes on). Without them a state saved after the very first step resumes with the
  // buckets of that step.
  // `logger`: that of the Reducer, which knows how long forward takes. It is not kept alive.
  static std::shared_ptr<Attachment> attach(const std::shared_ptr<c10d::Reducer>& reducer,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                            const std::vector<NamedParameter>& parameters,
                                            const Request& request, const MakeGroup& make_group,
                                            const std::vector<size_t>& bucket_caps = {},
                                            const std::shared_ptr<c10d::Logger>& logger = {});

  // Tells the other workers, which wait in attach(), that this one will not come.
  static void announce_failure(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                               const std::string& reason);

  // Before the forward of every step that will synchronise, on all workers alike; method `auto`
  // decides there. Gives one line of text where it has decided something, on worker 0.
  std::string before_step();

  // Between steps. A state that does not fit is refused with a std::invalid_argument that names the
  // difference, and changes nothing. Loading restores the Reducer's buckets too, so it comes before
  // the first forward.
  State state() const;
  void load_state(const State& state);

  // Costs microseconds, from any thread, also while a step waits for the network.
  Stats stats() const;
  // The norm of all that this worker keeps back. It passes over all residuals; between steps.
  double residual_norm() const;
  // One line: the method, the workers, the steps and the rates.
  std::string describe() const;

  // What the planner needs to know of this job, as JSON in the format of docs/plan.md: medians of
  // the last 32 steps. Throws std::runtime_error where there were none since the Reducer made its
  // buckets anew, which it does after the first step.
  std::string profile() const;

  // Under DDP's join: from now on divide by the number of workers that still have data, instead of
  // by that of all workers. The same on all workers.
  void divide_by_active_workers(bool value);

 private:
  struct Impl;
  explicit Attachment(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradwire
