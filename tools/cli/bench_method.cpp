#include "cli/bench_method.h"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>

#include "methods/momentum.h"
#include "planner/bucket_cost.h"

namespace gradwire::bench {
namespace {

// What the other workers, all with the same gradient as this one, would have sent.
void communicate(Round& round) {
  if (round.collective == Collective::all_reduce_sum) {
    round.receive.mul_(kWorkers);
    return;
  }
  const int64_t sent_to_each = round.collective == Collective::all_gather
                                   ? round.send.numel()
                                   : round.send.numel() / kWorkers;
  round.receive.view({kWorkers, -1}).copy_(round.send.view(-1).narrow(0, 0, sent_to_each));
}

double status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return 1024 * std::stod(line.substr(field.size() + 1));
  }
  throw std::runtime_error("/proc/self/status has no " + field);
}

// The next peak begins at what is in use now.
void reset_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace

std::vector<Subject> subjects(int64_t megabytes) {
  const int64_t columns = 3072;
  const int64_t rows =
      kWorkers * std::max<int64_t>(16, megabytes * 1'000'000 / 4 / columns / kWorkers);
  std::vector<Subject> all;
  for (const MethodEntry& method : registry()) {
    if (!method.compresses()) continue;
    for (const Variant& variant : method.variants) {
      all.push_back({variant.name, &method, variant.options, {rows, columns}});
    }
  }
  return all;
}

size_t Subject::phases() const {
  return static_cast<size_t>(choice_of(*method, options).model->kinds_of_steps);
}

// What the planner's model takes for it where memory is infinitely fast.
double Subject::operations(size_t phase) const {
  planner::Profile profile;
  profile.parameters = {{"weight", shape}};
  profile.flops_per_second = 1;
  const planner::BucketCost cost = planner::bucket_cost(
      profile, {.parameters = {0}}, choice_of(*method, options), kWorkers, static_cast<int>(phase));
  return cost.rounds[0].compute_seconds + cost.rounds[1].compute_seconds + cost.decode_seconds;
}

MethodRun::MethodRun(Subject subject) : subject_(std::move(subject)) {
  parameter_ = {"weight", at::zeros(subject_.shape)};
  scale_ = at::randn(subject_.shape).exp_();
  gradient_ = at::empty(subject_.shape);
  memory_ = at::empty(subject_.shape);
  // Once in vain: the code of the method, and whatever libraries allocate at first, is not its
  // memory.
  make_method();
  for (size_t i = 0; i < subject_.phases(); ++i) step();
  steps_ = 0;
  state_.reset();
  method_.reset();
  malloc_trim(0);
  bytes_without_method_ = status_bytes("VmRSS");
  make_method();
}

void MethodRun::make_method() {
  const OptionMap complete = complete_options(*subject_.method, subject_.options);
  method_ = subject_.method->create(complete);
  state_ = with_momentum(method_->make_state(parameter_, complete), parameter_,
                         subject_.method->facts(complete).momentum);
}

// Fresh noise in every step, of a magnitude that is an element's own: gradients of one layer differ
// in scale from element to element, and from step to step mostly in their noise.
void MethodRun::make_gradient() {
  gradient_.normal_(0.1, 1).mul_(scale_);
  // To know what the others would have made of their slices, all slices of the gradient are alike.
  if (reduces_slices()) {
    const at::Tensor slices = gradient_.view({kWorkers, -1});
    slices.narrow(0, 1, kWorkers - 1).copy_(slices.narrow(0, 0, 1));
  }
  memory_.copy_(gradient_);
}

void MethodRun::step(std::optional<int> threads) {
  make_gradient();
  const size_t phase = static_cast<size_t>(steps_++) % subject_.phases();
  if (threads && !has_begun_) begin_account();
  at::set_num_threads(threads.value_or(1));
  const Slot slot{&parameter_, state_.get(), memory_};
  std::unique_ptr<Exchange> exchange;
  Round round;
  const double encode = seconds_of([&] {
    exchange = method_->begin({state_->before_exchange(slot)},
                              {.number = steps_, .worker = 0, .workers = kWorkers});
    round = exchange->start();
  });
  first_collective_ = round.collective;
  payload_bytes_ = static_cast<double>(exchange->payload_bytes().front());
  double decode = 0;
  size_t in_flight = 0;
  for (std::optional<Round> next = round; next;) {
    const at::Tensor& received = next->receive;
    in_flight =
        std::max(in_flight,
                 received.nbytes() + (received.is_alias_of(next->send) ? 0 : next->send.nbytes()));
    communicate(*next);
    decode += seconds_of([&] { next = exchange->complete_round(); });
  }
  decode += seconds_of([&] {
    exchange->finish();
    state_->after_exchange(slot);
  });
  state_->end_step(/*counts=*/true);
  in_flight_bytes_ = std::max(in_flight_bytes_, static_cast<double>(in_flight));
  at::set_num_threads(1);
  if (!threads) return;
  timings_[{*threads, phase}].encode.add(encode);
  timings_[{*threads, phase}].decode.add(decode);
  if (unaccounted_.defined()) unaccounted_.add_(gradient_).sub_(memory_);
  if (!facts_of(*subject_.method, subject_.options).keeps_residual) check_rounding();
}

void MethodRun::measure_memory() {
  reset_peak();
  in_flight_bytes_ = 0;
  for (size_t i = 0; i < 2 * subject_.phases(); ++i) step();
  const double peak = status_bytes("VmHWM");
  const at::Tensor kept = state_->residual();
  const double residual = kept.defined() ? static_cast<double>(kept.nbytes()) : 0;
  extra_bytes_ = peak - bytes_without_method_ - residual;
}

void MethodRun::begin_account() {
  has_begun_ = true;
  const at::Tensor kept = state_->residual();
  // Alike slices of the gradient need not be alike slices of what travels, as low-rank factors: the
  // result of a method that keeps the rest of it is not known here.
  if (kept.defined() && !reduces_slices()) unaccounted_ = kept.reshape(subject_.shape).clone();
}

void MethodRun::check_rounding() {
  double error = 0;
  if (!method_->averages()) {  // a vote
    error = memory_.sign().equal(at::where(gradient_ >= 0, 1.0, -1.0).to(at::kFloat)) ? 0 : 1;
  } else {
    // Anything beyond the rounding counts, which may be that of the largest of some neighbours.
    constexpr int64_t kNeighbours = 256;
    const double rounding = facts_of(*subject_.method, subject_.options).rounding;
    const at::Tensor largest = gradient_.view({-1, kNeighbours}).abs().amax(1, true);
    const at::Tensor off = (memory_ - gradient_).abs().view({-1, kNeighbours});
    const at::Tensor beyond = off - largest * rounding;
    error = (beyond.clamp_min(1e-7).norm() / gradient_.norm()).item<double>();
  }
  error_ = std::max(error_, error);
}

void MethodRun::verify() {
  if (unaccounted_.defined()) {
    const at::Tensor kept = state_->residual().reshape(subject_.shape);
    error_ = ((unaccounted_ - kept).norm() / gradient_.norm()).item<double>();
  }
  if (!(error_ < 1e-3)) {
    throw std::runtime_error(subject_.name + ": the result is wrong by " + std::to_string(error_) +
                             " of the gradient");
  }
}

}  // namespace gradwire::bench
