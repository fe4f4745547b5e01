#pragma once

// The engine: named gradients in, their common mean out. It knows parameters, methods and a process
// group, and nothing of who hands the gradients over. The public Compressor is a thin face of it;
// src/ddp adapts it to PyTorch's Reducer.

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/active_workers.h"
#include "comm/courier.h"
#include "engine/counters.h"
#include "engine/loss_scale.h"
#include "engine/parameter_states.h"
#include "engine/routes.h"

namespace gradwire {

// A gradient that is handed over. `memory` has the parameter's shape and takes up the result.
struct Gradient {
  size_t parameter;
  at::Tensor memory;
};

// The gradients that were handed over at once, on their way. A step consists of one part or more.
struct Part {
  int64_t step = 0;
  struct Carried {
    std::shared_ptr<Transfer> transfer;
    std::vector<Slot> slots;
    std::vector<Slot> seen;  // by the method: see ParameterState::before_exchange()
    bool averages;           // see Method
  };
  std::vector<Carried> carried;                 // by one carrier each
  std::shared_ptr<const ActiveWorkers> active;  // null: all workers have data

  // Filled in by finish(), for whoever records profiles.
  double between_seconds = 0;  // that methods computed between rounds
  double decode_seconds = 0;
  double gathered_bytes = 0;  // that this worker passed to all-gathers
};

class Engine {
 public:
  // `courier` has groups for as many rounds as any routes will need.
  Engine(Courier courier, std::vector<Parameter> parameters, Request request, Routes routes);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Request& request() const { return request_; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return courier_.group(); }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  bool is_plain() const { return routes_.is_plain(); }
  // The steps of plain all-reduce before `start_after` are over.
  bool is_compressing() const { return counters_.steps() > request_.start_after; }

  // A worker without data takes part in the step with zeros.
  void begin_step(bool has_data = true);
  // Encodes these gradients and launches their collectives. The order of parts is the same on every
  // worker.
  std::unique_ptr<Part> start(const std::vector<Gradient>& gradients);
  // Waits for them and decodes: the gradients' memory then holds the result.
  void finish(Part& part);

  // From now on gradients travel by these routes. What the methods before have kept back is not
  // lost. Between steps; the same on all workers.
  void adopt(Routes routes);
  // From the next step on, results are means over the workers that have data.
  void divide_by_active_workers(bool value) { divides_by_active_ = value; }

  // Between steps; without the worker in the keys (see saved_state.h). load_state() takes what
  // check_fits() has accepted.
  State state() const;
  // What state() would hold with these routes.
  State state_with(const Routes& routes) const;
  void load_state(const State& state);
  double residual_norm() const;
  // One line about it all.
  std::string describe() const;

 private:
  void check_between_steps() const;
  std::vector<std::vector<Slot>> slots_by_carrier(const std::vector<Gradient>& gradients);
  Counts counts_of(const Part::Carried& carried) const;
  static void correct(const Part::Carried& carried, double factor);
  void end_step() const;
  State state_but_for_tensors(const Routes& routes) const;

  Courier courier_;
  std::vector<Parameter> parameters_;
  Request request_;
  Counters counters_;
  std::atomic<bool> divides_by_active_ = false;

  // It guards what follows against another thread that asks for a state. Nobody holds it while
  // waiting for the network.
  mutable std::mutex mutex_;
  Routes routes_;
  ParameterStates states_;
  bool has_momentum_;  // see Routes
  LossScale loss_scale_;
  int64_t routes_since_;                         // the step after which these routes came
  std::shared_ptr<const ActiveWorkers> active_;  // of this step
  int under_way_ = 0;                            // parts of this step that are not finished
  bool is_finite_ = true;  // all results of this step so far; watched with momentum only
};

}  // namespace gradwire
