#include "engine/engine.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "comm/collectives.h"
#include "comm/peer_failure.h"
#include "auto/recorded_profile.h"
#include "engine/saved_state.h"
#include "comm/stopwatch.h"

namespace gradwire {
namespace {

// The parameter's part of the bucket as the parameter sees it. The Reducer lays a gradient out in
// the parameter's memory order but hands it out as if that were contiguous, which is wrong for
// example where the parameter is channels_last.
at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& flat) {
  const at::Tensor strided =
      parameter.is_non_overlapping_and_dense()
          ? flat.as_strided(parameter.sizes(), parameter.strides(), flat.storage_offset())
          : flat.view(parameter.sizes());
  return strided.is_complex() ? at::view_as_real(strided) : strided;
}

}  // namespace

Engine::Engine(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<Parameter> parameters,
                   Request request, Plan plan, StepRecorder recorder)
    : group_(std::move(group)),
      parameters_(std::move(parameters)),
      request_(std::move(request)),
      plan_(std::move(plan)),
      recorder_(std::move(recorder)) {
  stats_.method = request_.method;
  plan_since_ = request_.start_after;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    index_of_[parameters_[i].tensor.unsafeGetTensorImpl()] = i;
  }
  describe_plan();
}

void Engine::describe_plan() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    stats_.plan[parameters_[i].name] = plan_.describe(i);
  }
}

int64_t Engine::steps() const {
  const std::lock_guard lock(mutex_);
  return stats_.steps;
}

void Engine::adopt(Plan plan) {
  const std::lock_guard lock(mutex_);
  check_between_steps();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (plan_.treatments[i].state == nullptr) continue;
    const at::Tensor residual = plan_.treatments[i].state->residual();
    if (!residual.defined()) continue;
    ParameterState* next = plan.treatments[i].state.get();
    auto tensors = next == nullptr ? std::map<std::string, at::Tensor>() : next->tensors();
    if (const auto found = tensors.find("residual"); found != tensors.end()) {
      found->second.copy_(residual.view_as(found->second));
    } else {
      left_over_[i] = residual.clone();
    }
  }
  plan_ = std::move(plan);
  plan_since_ = stats_.steps;
  recorder_.forget();
  describe_plan();
}

void Engine::begin_step(bool has_joined) {
  ++stats_.steps;
  under_way_ = 0;  // whatever an exception has cut short
  launched_ = 0;
  is_recording_ = is_compressing() && !has_joined;
  if (is_recording_) recorder_.begin_step();
  follow_loss_scale();
  count_active_workers(has_joined);
}

// Residuals are in units of the last step's loss scale: where the scale has changed, so do they.
void Engine::follow_loss_scale() {
  if (!request_.loss_scale) return;
  if (!loss_scale_tensor_.defined()) loss_scale_tensor_ = request_.loss_scale();
  if (!loss_scale_tensor_.defined()) return;
  const auto scale = loss_scale_tensor_.item<double>();
  if (scale != loss_scale_) rescale_residuals(scale / loss_scale_);
  loss_scale_ = scale;
}

void Engine::rescale_residuals(double factor) {
  for (const Treatment& treatment : plan_.treatments) {
    if (treatment.state == nullptr) continue;
    for (auto& [name, tensor] : treatment.state->tensors()) {
      if (name == "residual") tensor.mul_(factor);
    }
  }
  for (auto& [parameter, tensor] : left_over_) tensor.mul_(factor);
}

void Engine::count_active_workers(bool has_joined) {
  active_.reset();
  if (!divides_by_active_) return;
  active_ = std::make_shared<ActiveWorkers>();
  active_->count =
      at::full({1}, has_joined ? 0 : 1,
               parameters_.front().tensor.options().dtype(at::kFloat).requires_grad(false));
  std::vector<at::Tensor> tensors = {active_->count};
  active_->work = with_other_workers(stats_.steps, [&] { return group_->allreduce(tensors); });
}

std::vector<std::vector<Slot>> Engine::slots_by_carrier(c10d::GradBucket& bucket) {
  const bool compressing = is_compressing();
  const std::vector<at::Tensor>& tensors = bucket.getParameters();
  const bool sparse = bucket.getBufferRef().is_sparse();
  const std::vector<at::Tensor> gradients =
      sparse ? std::vector<at::Tensor>{bucket.getBufferRef()} : bucket.getGradients();
  std::vector<std::vector<Slot>> groups(plan_.carriers.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t index = index_of_.at(tensors[i].unsafeGetTensorImpl());
    if (sparse) {
      groups[0].push_back({&parameters_[index], nullptr, gradients[i]});
    } else if (tensors[i].numel() > 0) {
      const Treatment& treatment = plan_.treatments[index];
      const at::Tensor memory = in_layout_of(tensors[i], gradients[i]);
      if (const auto left_over = left_over_.extract(index)) {
        memory.add_(left_over.mapped().view_as(memory));
      }
      groups[compressing ? treatment.carrier : 0].push_back(
          {&parameters_[index], compressing ? treatment.state.get() : nullptr, memory});
    }
  }
  // Where an exchange of this bucket takes uncompressed parameters along, they need none of their
  // own.
  for (size_t carrier = 1; carrier < groups.size() && !sparse; ++carrier) {
    if (!groups[carrier].empty() && plan_.carriers[carrier]->carries_uncompressed()) {
      std::move(groups[0].begin(), groups[0].end(), std::back_inserter(groups[carrier]));
      groups[0].clear();
    }
  }
  return groups;
}

void Engine::make_later_rounds(const MakeGroup& make_group, int rounds) {
  for (const auto& carrier : plan_.carriers) rounds = std::max(rounds, carrier->rounds());
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  for (int round = 1; round < rounds; ++round) groups.push_back(make_group());
  if (!groups.empty()) later_rounds_ = std::make_unique<LaterRounds>(groups);
}

void Engine::count(const Transfer& transfer) {
  const double dense_multiplier = sent_multiplier(Collective::all_reduce_sum, group_->getSize());
  const std::vector<int64_t> payload = transfer.exchange->payload_bytes();
  for (size_t i = 0; i < transfer.slots.size(); ++i) {
    const int64_t dense = transfer.slots[i].memory.numel() * static_cast<int64_t>(sizeof(float));
    KindStats& kind = stats_.by_kind[static_cast<size_t>(transfer.slots[i].parameter->kind())];
    kind.gradient_bytes += dense;
    kind.payload_bytes += payload[i];
    stats_.gradient_bytes += dense;
    stats_.payload_bytes += payload[i];
    stats_.dense_bytes += std::llround(static_cast<double>(dense) * dense_multiplier);
  }
  stats_.sent_bytes += std::llround(transfer.sent_bytes);
  stats_.encode_seconds += transfer.between_seconds;
}

std::shared_ptr<Transfer> Engine::start_transfer(size_t carrier, std::vector<Slot> slots) {
  const Step step{.number = stats_.steps - plan_since_,
                  .worker = group_->getRank(),
                  .workers = group_->getSize(),
                  .loss_scale = static_cast<float>(loss_scale_)};
  Method& method = *plan_.carriers[carrier];
  auto transfer = std::make_shared<Transfer>();
  transfer->slots = slots;
  transfer->exchange = method.begin(std::move(slots), step);
  transfer->averages = method.averages();
  transfer->rounds_left = method.rounds() - 1;
  Round round;
  {
    RECORD_FUNCTION("gradwire::encode", {});
    const Stopwatch stopwatch(stats_.encode_seconds);
    round = transfer->exchange->start();
  }
  transfer->step = stats_.steps;
  transfer->gathers = round.collective == Collective::all_gather;
  gradwire::launch(*transfer, std::move(round), *group_);
  transfer->is_followed = transfer->rounds_left > 0;
  if (transfer->is_followed) later_rounds_->follow(transfer);
  return transfer;
}

std::unique_ptr<Passage> Engine::launch(c10d::GradBucket& bucket, bool has_joined) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  // The Reducer launches the buckets of a step in ascending order and completes them when all are
  // launched, so one that does not ascend, or comes after completed ones, begins the next step.
  // (Those of a worker that has run out of data are completed one by one, and all of them come.)
  // Neither "the last bucket" nor the autograd graph would do: the last may be left out
  // (skip_all_reduce_unused_params), and a checkpointed segment is a graph of its own.
  const bool after_completed = !has_joined && under_way_ == 0;
  if (last_bucket_ == kNone || bucket.getIndex() <= last_bucket_ || after_completed) {
    begin_step(has_joined);
  }
  last_bucket_ = bucket.getIndex();
  ++under_way_;  // before anything is encoded: from there on a failure leaves the step incomplete
  if (is_recording_) recorder_.bucket_is_ready(bucket.getBufferRef());
  std::vector<std::vector<Slot>> groups = slots_by_carrier(bucket);
  auto passage = std::make_unique<Passage>();
  passage->place = launched_++;
  passage->buffer = bucket.getBufferRef();
  passage->active = active_;
  for (size_t carrier = 0; carrier < groups.size(); ++carrier) {
    if (groups[carrier].empty()) continue;
    passage->transfers.push_back(start_transfer(carrier, std::move(groups[carrier])));
  }
  if (is_recording_) recorder_.bucket_is_launched();
  return passage;
}

void Engine::wait_for(Transfer& transfer) {
  RECORD_FUNCTION("gradwire::wait", {});
  const Stopwatch stopwatch(stats_.wait_seconds);
  if (transfer.is_followed) transfer.all_launched->wait();
  if (!transfer.exhausted) transfer.wait();
}

void Engine::complete(Passage& passage) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  const double decoded_before = stats_.decode_seconds;
  double between_seconds = 0;
  double gathered_bytes = 0;
  for (const auto& transfer : passage.transfers) {
    wait_for(*transfer);
    RECORD_FUNCTION("gradwire::decode", {});
    const Stopwatch stopwatch(stats_.decode_seconds);
    if (!transfer->exhausted) {
      TORCH_INTERNAL_ASSERT(!transfer->exchange->next(), "a method made more rounds than it announced");
    }
    transfer->exchange->finish();
    count(*transfer);
    between_seconds += transfer->between_seconds;
    if (transfer->gathers && group_->getSize() > 1) {
      gathered_bytes +=
          transfer->sent_bytes / sent_multiplier(Collective::all_gather, group_->getSize());
    }
  }
  if (is_recording_) {
    recorder_.bucket_is_decoded(passage.place, between_seconds,
                                stats_.decode_seconds - decoded_before, gathered_bytes);
  }
  if (passage.active != nullptr) divide_by_active(passage);
  --under_way_;
}

// The methods have divided by the number of all workers.
void Engine::divide_by_active(Passage& passage) const {
  with_other_workers(stats_.steps, [&] { return passage.active->work->wait(); });
  const double factor = group_->getSize() / passage.active->count.item<double>();
  for (const auto& transfer : passage.transfers) {
    if (!transfer->averages) continue;
    for (const Slot& slot : transfer->slots) slot.memory.mul_(factor);
  }
}

void Engine::count_plain(bool begins_step, const at::Tensor& buffer) {
  const std::lock_guard lock(mutex_);
  if (begins_step) {
    ++stats_.steps;
    recorder_.begin_step();
    count_plain_by_kind();
  }
  recorder_.bucket_is_ready(buffer);
  const int64_t bytes = wire_bytes(buffer);
  const int64_t dense = buffer.numel() * static_cast<int64_t>(sizeof(float));
  const double multiplier = sent_multiplier(Collective::all_reduce_sum, group_->getSize());
  stats_.gradient_bytes += dense;
  stats_.payload_bytes += bytes;
  stats_.sent_bytes += std::llround(static_cast<double>(bytes) * multiplier);
  stats_.dense_bytes += std::llround(static_cast<double>(dense) * multiplier);
}

// Of the whole step: a bucket does not say whose gradients are in it.
void Engine::count_plain_by_kind() {
  for (const Parameter& parameter : parameters_) {
    const int64_t numbers = parameter.tensor.numel() * (parameter.tensor.is_complex() ? 2 : 1);
    KindStats& kind = stats_.by_kind[static_cast<size_t>(parameter.kind())];
    kind.gradient_bytes += numbers * static_cast<int64_t>(sizeof(float));
    kind.payload_bytes +=
        parameter.tensor.numel() * static_cast<int64_t>(parameter.tensor.element_size());
  }
}

Stats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  // In the middle of a step a residual cannot be had without disturbing what the step may still
  // have to undo: then the norm is 0.
  if (under_way_ > 0) return stats;
  double squares = 0;
  for (const Treatment& treatment : plan_.treatments) {
    if (treatment.state == nullptr) continue;
    const at::Tensor residual = treatment.state->residual();
    if (residual.defined()) squares += residual.square().sum(at::kDouble).item<double>();
  }
  stats.residual_norm = std::sqrt(squares);
  return stats;
}

planner::Profile Engine::profile(const std::vector<std::vector<size_t>>& buckets,
                                   double forward_seconds) const {
  const std::lock_guard lock(mutex_);
  return recorded_profile({.request = request_,
                           .is_plain = plan_.is_plain(),
                           .parameters = parameters_,
                           .buckets = buckets,
                           .workers = group_->getSize(),
                           .forward_seconds = forward_seconds},
                          recorder_);
}

void Engine::check_between_steps() const {
  if (under_way_ > 0) {
    throw std::runtime_error(
        "gradwire: a step is under way, or failed; a state is complete between steps only");
  }
}

State Engine::state() const { return state_with(plan_); }

State Engine::state_with(const Plan& plan) const {
  const std::lock_guard lock(mutex_);
  check_between_steps();
  State state;
  state["format"] = saved_state::kFormat;
  state["method"] = request_.method;
  state["workers"] = static_cast<int64_t>(group_->getSize());
  state["steps"] = stats_.steps;
  state["start_after"] = request_.start_after;
  state["plan_since"] = plan_since_;
  state["loss_scale"] = loss_scale_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    state[parameters_[i].name + "/treatment"] = plan.describe(i);
    if (plan.treatments[i].state == nullptr) continue;
    for (const auto& [name, tensor] : plan.treatments[i].state->tensors()) {
      state[parameters_[i].name + "/" + name] = tensor.clone();
    }
  }
  return state;
}

void Engine::load_state(const State& state) {
  const std::lock_guard lock(mutex_);
  check_between_steps();
  last_bucket_ = kNone;
  left_over_.clear();
  stats_.steps = state.at("steps").toInt();
  plan_since_ = state.at("plan_since").toInt();
  loss_scale_ = state.at("loss_scale").toDouble();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (plan_.treatments[i].state == nullptr) continue;
    for (auto& [name, tensor] : plan_.treatments[i].state->tensors()) {
      tensor.copy_(state.at(parameters_[i].name + "/" + name).toTensor());
    }
  }
  // Saved with a GradScaler and loaded without one: nothing would rescale them later.
  if (!request_.loss_scale) {
    rescale_residuals(1 / loss_scale_);
    loss_scale_ = 1;
  }
}

}  // namespace gradwire
