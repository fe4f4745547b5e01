#pragma once

// Takes every bucket of every step through the methods of its parameters.

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "comm/later_rounds.h"
#include "comm/transfer.h"
#include "engine/routes.h"
#include "auto/step_recorder.h"
#include "gradwire/attachment.h"
#include "methods/method.h"

namespace gradwire {

// How many workers still have data in a step, under DDP's join: their sum, under way.
struct ActiveWorkers {
  at::Tensor count;
  c10::intrusive_ptr<c10d::Work> work;
};

// One bucket on its way: the first rounds of all its exchanges are under way when it is made.
struct Passage {
  size_t place = 0;  // among the buckets of its step
  at::Tensor buffer;
  std::vector<std::shared_ptr<Transfer>> transfers;
  std::shared_ptr<ActiveWorkers> active;  // null: all
};

class Engine {
 public:
  Engine(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<Parameter> parameters,
           Request request, Plan plan, StepRecorder recorder);

  // Makes the process groups for later rounds, if the methods have any, or for as many rounds as
  // are said. Collective.
  void make_later_rounds(const MakeGroup& make_group, int rounds = 1);

  bool is_plain() const { return plan_.is_plain(); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  int64_t steps() const;

  // From now on gradients travel by this plan, which has no more rounds than there are
  // process groups for. What the one before has kept back is not lost. Between steps; the same on
  // all workers.
  void adopt(Plan plan);
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  // Encodes the bucket and launches its collectives. A worker that has run out of data (DDP's join)
  // takes part with a bucket of zeros.
  std::unique_ptr<Passage> launch(c10d::GradBucket& bucket, bool has_joined);
  // Waits for them and decodes: the bucket's buffer then holds the result.
  void complete(Passage& passage);

  // For a model that travels uncompressed and whose buckets do not come through here.
  void count_plain(bool begins_step, const at::Tensor& buffer);

  // Without the worker in the keys; see saved_state.h. Loads only what fits.
  State state() const;
  // What it would hold with that plan.
  State state_with(const Plan& plan) const;
  void load_state(const State& state);
  Stats stats() const;
  // See recorded_profile.h.
  planner::Profile profile(const std::vector<std::vector<size_t>>& buckets,
                           double forward_seconds) const;
  void divide_by_active_workers(bool value) { divides_by_active_ = value; }

 private:
  bool is_compressing() const { return stats_.steps > request_.start_after; }
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  void describe_plan();
  void begin_step(bool has_joined);
  void rescale_residuals(double factor);
  void check_between_steps() const;
  void follow_loss_scale();
  void count_active_workers(bool has_joined);
  std::vector<std::vector<Slot>> slots_by_carrier(c10d::GradBucket& bucket);
  std::shared_ptr<Transfer> start_transfer(size_t carrier, std::vector<Slot> slots);
  void wait_for(Transfer& transfer);
  void divide_by_active(Passage& passage) const;
  void count(const Transfer& transfer);
  void count_plain_by_kind();

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<Parameter> parameters_;
  Request request_;
  Plan plan_;
  std::unordered_map<const c10::TensorImpl*, size_t> index_of_;

  std::unique_ptr<LaterRounds> later_rounds_;
  std::atomic<bool> divides_by_active_ = false;
  at::Tensor loss_scale_tensor_;

  mutable std::mutex mutex_;  // guards what follows: stats() may be called from any thread
  Stats stats_;
  StepRecorder recorder_;
  bool is_recording_ = false;  // this step
  size_t launched_ = 0;        // buckets of this step
  size_t last_bucket_ = kNone;
  int under_way_ = 0;       // buckets launched and not completed yet
  double loss_scale_ = 1;   // of the last step: what the residuals are in
  int64_t plan_since_ = 0;  // the step after which this plan came
  // What an earlier plan has kept back of parameters that now travel uncompressed, by parameter:
  // goes into their next gradients.
  std::unordered_map<size_t, at::Tensor> left_over_;
  std::shared_ptr<ActiveWorkers> active_;  // of this step
};

}  // namespace gradwire
