#pragma once

// Runs a method for all workers of a world in one thread, with the collectives done by hand: no
// process group, no buckets, no Reducer. For what a method computes; tests/ddp has the real thing.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "methods/momentum.h"
#include "methods/registry.h"

namespace gradwire {

class SimulatedWorld {
 public:
  // Parameters are given by shape; they are called weight0, weight1, ...
  SimulatedWorld(const std::string& method, const OptionMap& options, int workers,
                 const std::vector<std::vector<int64_t>>& shapes, at::ScalarType type = at::kFloat)
      : workers_(workers) {
    const MethodEntry& entry = find_method(method);
    const OptionMap complete = complete_options(entry, options);
    for (size_t i = 0; i < shapes.size(); ++i) {
      parameters_.push_back({"weight" + std::to_string(i), at::zeros(shapes[i], type)});
    }
    for (int worker = 0; worker < workers; ++worker) {
      methods_.push_back(entry.create(complete));
      auto& states = states_.emplace_back();
      for (const Parameter& parameter : parameters_) {
        states.push_back(with_momentum(methods_.back()->make_state(parameter, complete), parameter,
                                       entry.facts(complete).momentum));
      }
    }
  }

  // gradients[worker][parameter] -> results[worker][parameter]
  std::vector<std::vector<at::Tensor>> step(const std::vector<std::vector<at::Tensor>>& gradients) {
    ++steps_;
    std::vector<std::vector<at::Tensor>> memory(workers_);
    std::vector<Slot> slots;  // of all workers
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (int worker = 0; worker < workers_; ++worker) {
      std::vector<Slot> seen;
      for (size_t i = 0; i < parameters_.size(); ++i) {
        ParameterState* state = states_[worker][i].get();
        memory[worker].push_back(gradients[worker][i].clone());
        slots.push_back({&parameters_[i], state, memory[worker].back()});
        seen.push_back(state == nullptr ? slots.back() : state->before_exchange(slots.back()));
      }
      exchanges.push_back(
          methods_[worker]->begin(seen, {.number = steps_, .worker = worker, .workers = workers_}));
    }
    std::vector<Round> rounds;
    for (auto& exchange : exchanges) rounds.push_back(exchange->start());
    sent_.clear();
    payload_bytes_.clear();
    for (auto& exchange : exchanges) payload_bytes_.push_back(exchange->payload_bytes());
    while (!rounds.empty()) {
      for (const Round& round : rounds) sent_.push_back(round.send.clone());
      communicate(rounds);
      std::vector<Round> next;
      for (auto& exchange : exchanges) {
        if (auto round = exchange->complete_round()) next.push_back(*round);
      }
      TORCH_CHECK(next.empty() || next.size() == rounds.size(), "the workers do not go on alike");
      rounds = std::move(next);
    }
    for (auto& exchange : exchanges) exchange->finish();
    end_step(slots);
    return memory;
  }

  // As a new process does: everything but what is saved is forgotten.
  void resume_from(SimulatedWorld& other) {
    steps_ = other.steps_;
    for (int worker = 0; worker < workers_; ++worker) {
      for (size_t i = 0; i < parameters_.size(); ++i) {
        if (states_[worker][i] == nullptr) continue;
        load(*states_[worker][i], *other.states_[worker][i]);
      }
    }
  }

  // What a state saves is what another of the same parameter loads.
  static void load(ParameterState& state, ParameterState& saved) {
    const std::vector<StateTensor> from = saved.tensors();
    const std::vector<StateTensor> to = state.tensors();
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < to.size(); ++i) {
      ASSERT_EQ(from[i].name, to[i].name);
      ASSERT_EQ(from[i].role, to[i].role);
      to[i].tensor.copy_(from[i].tensor);
    }
  }

  // The residual of a worker's parameter, zeros where there is none.
  at::Tensor residual(int worker, size_t parameter) const {
    const auto& state = states_[worker][parameter];
    const at::Tensor& tensor = parameters_[parameter].tensor;
    if (state == nullptr || !state->residual().defined()) return at::zeros_like(tensor);
    return state->residual().reshape(tensor.sizes()).clone();
  }

  bool compresses(size_t parameter) const { return states_[0][parameter] != nullptr; }

  ParameterState& state(int worker, size_t parameter) { return *states_[worker][parameter]; }

  // What the last step sent, in the order of rounds and workers.
  const std::vector<at::Tensor>& sent() const { return sent_; }
  // Of the last step, [worker][parameter].
  const std::vector<std::vector<int64_t>>& payload_bytes() const { return payload_bytes_; }

 private:
  // As the engine does it.
  static void end_step(const std::vector<Slot>& slots) {
    bool finite = true;
    for (const Slot& slot : slots) {
      if (slot.state != nullptr) slot.state->after_exchange(slot);
      finite = finite && at::isfinite(slot.memory).all().item<bool>();
    }
    for (const Slot& slot : slots) {
      if (slot.state != nullptr) slot.state->end_step(finite);
    }
  }

  void communicate(std::vector<Round>& rounds) const {
    if (rounds.front().collective == Collective::all_reduce_sum) {
      at::Tensor sum = rounds.front().send.clone();
      for (int worker = 1; worker < workers_; ++worker) sum += rounds[worker].send;
      for (Round& round : rounds) round.receive.copy_(sum);
      return;
    }
    const bool gather = rounds.front().collective == Collective::all_gather;
    for (int to = 0; to < workers_; ++to) {
      std::vector<at::Tensor> parts;
      for (int from = 0; from < workers_; ++from) {
        const at::Tensor flat = rounds[from].send.view(-1);
        parts.push_back(gather ? flat : flat.chunk(workers_)[to]);
      }
      rounds[to].receive.view(-1).copy_(at::cat(parts));
    }
  }

  int workers_;
  int64_t steps_ = 0;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<Method>> methods_;
  std::vector<std::vector<std::unique_ptr<ParameterState>>> states_;
  std::vector<at::Tensor> sent_;
  std::vector<std::vector<int64_t>> payload_bytes_;
};

}  // namespace gradwire
