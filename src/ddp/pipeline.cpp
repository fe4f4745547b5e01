#include "ddp/pipeline.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "ddp/collectives.h"
#include "ddp/stopwatch.h"

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

Pipeline::Pipeline(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<Parameter> parameters,
                   Request request, Plan plan)
    : group_(std::move(group)),
      parameters_(std::move(parameters)),
      request_(std::move(request)),
      plan_(std::move(plan)) {
  stats_.method = request_.method;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    index_of_[parameters_[i].tensor.unsafeGetTensorImpl()] = i;
    stats_.plan[parameters_[i].name] = plan_.describe(i);
  }
}

// The Reducer launches the buckets of a step in ascending order, so one that does not ascend begins
// the next step. Neither "the last bucket" nor the autograd graph would do: the last may be left
// out (skip_all_reduce_unused_params), and a checkpointed segment is a graph of its own.
void Pipeline::advance_step(size_t bucket) {
  if (stats_.steps == 0 || bucket <= last_bucket_) ++stats_.steps;
  last_bucket_ = bucket;
}

std::vector<std::vector<Slot>> Pipeline::slots_by_carrier(c10d::GradBucket& bucket) {
  const bool compressing = stats_.steps > request_.start_after;
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
      groups[compressing ? treatment.carrier : 0].push_back(
          {&parameters_[index], compressing ? treatment.state.get() : nullptr,
           in_layout_of(tensors[i], gradients[i])});
    }
  }
  // Where an exchange of this bucket takes uncompressed parameters along, they need none of their
  // own.
  for (size_t carrier = 1; carrier < groups.size() && !sparse; ++carrier) {
    if (!groups[carrier].empty() && plan_.carriers[carrier]->carries_uncompressed() &&
        groups[carrier].front().memory.scalar_type() != at::kDouble) {
      std::move(groups[0].begin(), groups[0].end(), std::back_inserter(groups[carrier]));
      groups[0].clear();
    }
  }
  return groups;
}

void Pipeline::make_later_rounds(const MakeGroup& make_group) {
  int rounds = 1;
  for (const auto& carrier : plan_.carriers) rounds = std::max(rounds, carrier->rounds());
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  for (int round = 1; round < rounds; ++round) groups.push_back(make_group());
  if (!groups.empty()) later_rounds_ = std::make_unique<LaterRounds>(groups);
}

void Pipeline::count(const Leg& leg) {
  const double dense_multiplier = sent_multiplier(Collective::all_reduce_sum, group_->getSize());
  const std::vector<int64_t> payload = leg.exchange->payload_bytes();
  for (size_t i = 0; i < leg.slots.size(); ++i) {
    const int64_t dense = leg.slots[i].memory.numel() * static_cast<int64_t>(sizeof(float));
    KindStats& kind = stats_.by_kind[static_cast<size_t>(leg.slots[i].parameter->kind())];
    kind.gradient_bytes += dense;
    kind.payload_bytes += payload[i];
    stats_.gradient_bytes += dense;
    stats_.payload_bytes += payload[i];
    stats_.dense_bytes += std::llround(static_cast<double>(dense) * dense_multiplier);
  }
  stats_.sent_bytes += std::llround(leg.sent_bytes);
  stats_.encode_seconds += leg.between_seconds;
}

std::shared_ptr<Leg> Pipeline::start_leg(size_t carrier, std::vector<Slot> slots) {
  const Step step{.number = stats_.steps - request_.start_after,
                  .worker = group_->getRank(),
                  .workers = group_->getSize()};
  Method& method = *plan_.carriers[carrier];
  auto leg = std::make_shared<Leg>();
  leg->slots = slots;
  leg->exchange = method.begin(std::move(slots), step);
  leg->rounds_left = method.rounds() - 1;
  Round round;
  {
    RECORD_FUNCTION("gradwire::encode", {});
    const Stopwatch stopwatch(stats_.encode_seconds);
    round = leg->exchange->start();
  }
  gradwire::launch(*leg, std::move(round), *group_);
  leg->is_followed = leg->rounds_left > 0;
  if (leg->is_followed) later_rounds_->follow(leg);
  return leg;
}

std::unique_ptr<Passage> Pipeline::launch(c10d::GradBucket& bucket) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  advance_step(bucket.getIndex());
  std::vector<std::vector<Slot>> groups = slots_by_carrier(bucket);
  auto passage = std::make_unique<Passage>();
  passage->buffer = bucket.getBufferRef();
  for (size_t carrier = 0; carrier < groups.size(); ++carrier) {
    if (groups[carrier].empty()) continue;
    passage->legs.push_back(start_leg(carrier, std::move(groups[carrier])));
  }
  return passage;
}

void Pipeline::wait_for(Leg& leg) {
  RECORD_FUNCTION("gradwire::wait", {});
  const Stopwatch stopwatch(stats_.wait_seconds);
  if (leg.is_followed) leg.all_launched->wait();
  if (!leg.exhausted) leg.work->wait();
}

void Pipeline::complete(Passage& passage) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  for (const auto& leg : passage.legs) {
    wait_for(*leg);
    RECORD_FUNCTION("gradwire::decode", {});
    const Stopwatch stopwatch(stats_.decode_seconds);
    if (!leg->exhausted) {
      TORCH_INTERNAL_ASSERT(!leg->exchange->next(), "a method made more rounds than it announced");
    }
    leg->exchange->finish();
    count(*leg);
  }
}

void Pipeline::count_plain(bool begins_step, const at::Tensor& buffer) {
  const std::lock_guard lock(mutex_);
  if (begins_step) ++stats_.steps;
  const int64_t bytes = wire_bytes(buffer);
  const int64_t dense = buffer.numel() * static_cast<int64_t>(sizeof(float));
  const double multiplier = sent_multiplier(Collective::all_reduce_sum, group_->getSize());
  stats_.gradient_bytes += dense;
  stats_.payload_bytes += bytes;
  stats_.sent_bytes += std::llround(static_cast<double>(bytes) * multiplier);
  stats_.dense_bytes += std::llround(static_cast<double>(dense) * multiplier);
}

Stats Pipeline::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  double squares = 0;
  for (const Treatment& treatment : plan_.treatments) {
    if (treatment.state == nullptr) continue;
    const at::Tensor residual = treatment.state->residual();
    if (residual.defined()) squares += residual.square().sum(at::kDouble).item<double>();
  }
  stats.residual_norm = std::sqrt(squares);
  return stats;
}

std::string Pipeline::key_of(const std::string& rest) const {
  return "worker" + std::to_string(group_->getRank()) + "/" + rest;
}

State Pipeline::state() const {
  const std::lock_guard lock(mutex_);
  State state;
  state[key_of("method")] = request_.method;
  state[key_of("workers")] = static_cast<int64_t>(group_->getSize());
  state[key_of("steps")] = stats_.steps;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (plan_.treatments[i].state == nullptr) continue;
    for (const auto& [name, tensor] : plan_.treatments[i].state->tensors()) {
      state[key_of(parameters_[i].name + "/" + name)] = tensor.clone();
    }
  }
  return state;
}

void Pipeline::load_state(const State& state) {
  const State current = this->state();
  // Everything is checked before anything is changed.
  for (const auto& [key, value] : current) {
    const auto saved = state.find(key);
    if (saved == state.end())
      throw std::invalid_argument("the state to load has no \"" + key + "\"");
    if (value.isTensor() && (!saved->second.isTensor() ||
                             saved->second.toTensor().sizes() != value.toTensor().sizes())) {
      throw std::invalid_argument("the state to load has another shape of \"" + key + "\"");
    }
    if (value.isString() && saved->second.toStringRef() != value.toStringRef()) {
      throw std::invalid_argument("the state to load is of method \"" +
                                  saved->second.toStringRef() + "\", not \"" + value.toStringRef() +
                                  "\"");
    }
  }
  for (const auto& [key, value] : state) {
    if (!current.contains(key)) {
      throw std::invalid_argument("the state to load has a \"" + key + "\" that belongs nowhere");
    }
  }
  const std::lock_guard lock(mutex_);
  stats_.steps = state.at(key_of("steps")).toInt();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (plan_.treatments[i].state == nullptr) continue;
    for (auto& [name, tensor] : plan_.treatments[i].state->tensors()) {
      tensor.copy_(state.at(key_of(parameters_[i].name + "/" + name)).toTensor());
    }
  }
}

}  // namespace gradwire
