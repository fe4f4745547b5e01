#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "comm/collectives.h"
#include "comm/stopwatch.h"
#include "engine/saved_state.h"

namespace gradwire {
namespace {

Counters::Plan described(const std::vector<Parameter>& parameters, const Routes& routes) {
  Counters::Plan plan;
  for (size_t i = 0; i < parameters.size(); ++i) {
    plan[parameters[i].name] = routes.by_parameter[i].describe();
  }
  return plan;
}

std::vector<Slot> seen_by_method(const std::vector<Slot>& slots, double& seconds) {
  const Stopwatch stopwatch(seconds);
  std::vector<Slot> seen;
  for (const Slot& slot : slots) {
    seen.push_back(slot.state == nullptr ? slot : slot.state->before_exchange(slot));
  }
  return seen;
}

// As a GradScaler will find it.
bool is_finite(const Slot& slot) {
  if (slot.memory.is_sparse()) return at::isfinite(slot.memory._values()).all().item<bool>();
  return code_for(slot.memory.device()).all_finite(slot.load());
}

}  // namespace

Engine::Engine(Courier courier, std::vector<Parameter> parameters, Request request, Routes routes)
    : courier_(std::move(courier)),
      parameters_(std::move(parameters)),
      request_(std::move(request)),
      counters_(request_.method),
      routes_(std::move(routes)),
      states_(parameters_, std::move(routes_.states)),
      has_momentum_(routes_.has_momentum()),
      loss_scale_(request_.loss_scale),
      routes_since_(request_.start_after) {
  counters_.set_plan(described(parameters_, routes_), routes_.loss_class());
}

void Engine::begin_step(bool has_data) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  end_step();
  counters_.begin_step();
  under_way_ = 0;  // whatever an exception has cut short is over
  is_finite_ = true;
  if (const double factor = loss_scale_.follow(); factor != 1) states_.rescale(factor);
  active_.reset();
  if (divides_by_active_) {
    active_ = std::make_shared<ActiveWorkers>(*group(), parameters_.front().tensor.device(),
                                              has_data, counters_.steps());
  }
}

std::vector<std::vector<Slot>> Engine::slots_by_carrier(const std::vector<Gradient>& gradients) {
  const bool compressing = is_compressing();
  std::vector<std::vector<Slot>> slots(routes_.carriers.size());
  bool sparse = false;
  for (const auto& [index, memory] : gradients) {
    const Parameter* parameter = &parameters_[index];
    if (memory.is_sparse()) {
      slots[0].push_back({parameter, nullptr, memory});
      sparse = true;
    } else if (memory.numel() > 0) {
      states_.add_left_over(index, memory);
      const size_t carrier = compressing ? routes_.by_parameter[index].carrier : 0;
      slots[carrier].push_back({parameter, compressing ? states_.of(index) : nullptr, memory});
    }
  }
  // Uncompressed gradients need no exchange of their own where another one takes them along.
  for (size_t carrier = 1; carrier < slots.size() && !sparse; ++carrier) {
    if (!slots[carrier].empty() && routes_.carriers[carrier]->carries_uncompressed()) {
      std::ranges::move(slots[0], std::back_inserter(slots[carrier]));
      slots[0].clear();
    }
  }
  return slots;
}

std::unique_ptr<Part> Engine::start(const std::vector<Gradient>& gradients) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  ++under_way_;  // before anything is encoded: from there on a failure leaves the step incomplete
  auto part = std::make_unique<Part>();
  part->step = counters_.steps();
  part->active = active_;
  const Step step{.number = part->step - routes_since_,
                  .worker = group()->getRank(),
                  .workers = group()->getSize(),
                  .loss_scale = static_cast<float>(loss_scale_.current())};
  std::vector<std::vector<Slot>> by_carrier = slots_by_carrier(gradients);
  for (size_t carrier = 0; carrier < by_carrier.size(); ++carrier) {
    std::vector<Slot>& slots = by_carrier[carrier];
    if (slots.empty()) continue;
    Method& method = *routes_.carriers[carrier];
    double seconds = 0;
    std::vector<Slot> seen = seen_by_method(slots, seconds);
    auto transfer = courier_.start(method.begin(seen, step), method.rounds(), part->step);
    transfer->encode_seconds += seconds;
    part->carried.push_back(
        {std::move(transfer), std::move(slots), std::move(seen), method.averages()});
  }
  return part;
}

// No lock: while a part is under way, everybody else keeps away from the states.
void Engine::finish(Part& part) {
  const at::NoGradGuard no_grad;
  const double factor = part.active == nullptr ? 1 : group()->getSize() / part.active->count();
  bool finite = true;
  for (const Part::Carried& carried : part.carried) {
    Transfer& transfer = *carried.transfer;
    Courier::finish(transfer);
    {
      const Stopwatch stopwatch(transfer.decode_seconds);
      correct(carried, factor);
      finite = finite && (!has_momentum_ || std::ranges::all_of(carried.slots, is_finite));
    }
    counters_.add(counts_of(carried));
    part.between_seconds += transfer.between_seconds;
    part.decode_seconds += transfer.decode_seconds;
    if (transfer.gathers && group()->getSize() > 1) {
      part.gathered_bytes +=
          transfer.sent_bytes / sent_multiplier(Collective::all_gather, group()->getSize());
    }
  }
  const std::lock_guard lock(mutex_);
  if (part.step != counters_.steps()) return;
  --under_way_;
  is_finite_ = is_finite_ && finite;
}

// The methods have divided by the number of all workers; `factor` is that number over the number of
// those that have data.
void Engine::correct(const Part::Carried& carried, double factor) {
  if (carried.averages && factor != 1) {
    for (const Slot& slot : carried.seen) slot.memory.mul_(factor);
  }
  for (const Slot& slot : carried.slots) {
    if (slot.state != nullptr) slot.state->after_exchange(slot);
  }
}

// The optimizer has used the results of a step that is complete and finite: a GradScaler skips any
// other. Of a whole step only the engine knows, and not before something comes after it.
void Engine::end_step() const { states_.end_step(is_finite_ && under_way_ == 0); }

Counts Engine::counts_of(const Part::Carried& carried) const {
  const double dense_multiplier = sent_multiplier(Collective::all_reduce_sum, group()->getSize());
  const std::vector<int64_t> payload = carried.transfer->exchange->payload_bytes();
  Counts counts;
  for (size_t i = 0; i < carried.slots.size(); ++i) {
    const Slot& slot = carried.slots[i];
    const int64_t dense = slot.memory.numel() * static_cast<int64_t>(sizeof(float));
    KindCounts& kind = counts.by_kind[static_cast<size_t>(slot.parameter->kind())];
    kind.gradient_bytes += dense;
    kind.payload_bytes += payload[i];
    counts.gradient_bytes += dense;
    counts.payload_bytes += payload[i];
    counts.dense_bytes += std::llround(static_cast<double>(dense) * dense_multiplier);
  }
  counts.sent_bytes = std::llround(carried.transfer->sent_bytes);
  counts.encode_seconds = carried.transfer->encode_seconds + carried.transfer->between_seconds;
  counts.decode_seconds = carried.transfer->decode_seconds;
  counts.wait_seconds = carried.transfer->wait_seconds;
  return counts;
}

void Engine::adopt(Routes routes) {
  const std::lock_guard lock(mutex_);
  check_between_steps();
  end_step();
  states_.hand_over(std::move(routes.states));
  routes_ = std::move(routes);
  has_momentum_ = routes_.has_momentum();
  routes_since_ = counters_.steps();
  counters_.set_plan(described(parameters_, routes_), routes_.loss_class());
}

void Engine::check_between_steps() const {
  if (under_way_ > 0) {
    throw std::runtime_error(
        "gradwire: a step is under way, or failed; a state is complete between steps only");
  }
}

double Engine::residual_norm() const {
  const std::lock_guard lock(mutex_);
  check_between_steps();
  end_step();
  return states_.residual_norm();
}

std::string Engine::describe() const {
  const Stats stats = counters_.stats();
  std::string text = request_.method;
  for (const auto& [name, value] :
       complete_options(find_method(request_.method), request_.options)) {
    text += " " + name + "=" + to_string(value);
  }
  char rates[128];
  const int workers = group()->getSize();
  std::snprintf(rates, sizeof rates, ", %d worker%s, %lld steps, code ratio %.3g, wire ratio %.3g",
                workers, workers == 1 ? "" : "s", static_cast<long long>(stats.steps),
                stats.code_ratio(), stats.wire_ratio());
  return text + rates;
}

State Engine::state() const {
  const std::lock_guard lock(mutex_);
  State state = state_but_for_tensors(routes_);
  end_step();
  states_.save(state);
  return state;
}

State Engine::state_with(const Routes& routes) const {
  const std::lock_guard lock(mutex_);
  State state = state_but_for_tensors(routes);
  save_tensors(parameters_, routes.states, state);
  return state;
}

State Engine::state_but_for_tensors(const Routes& routes) const {
  check_between_steps();
  State state;
  state["format"] = saved_state::kFormat;
  state["method"] = request_.method;
  state["workers"] = static_cast<int64_t>(group()->getSize());
  state["steps"] = counters_.steps();
  state["start_after"] = request_.start_after;
  state["plan_since"] = routes_since_;
  state["loss_scale"] = loss_scale_.current();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    state[parameters_[i].name + saved_state::kTreatment] = routes.by_parameter[i].describe();
  }
  return state;
}

void Engine::load_state(const State& state) {
  const std::lock_guard lock(mutex_);
  check_between_steps();
  end_step();
  counters_.resume_at(state.at("steps").toInt());
  routes_since_ = state.at("plan_since").toInt();
  loss_scale_.set(state.at("loss_scale").toDouble());
  states_.load(state);
}

}  // namespace gradwire
