#pragma once

// Takes every bucket of every step through the methods of its parameters.

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ddp/later_rounds.h"
#include "ddp/leg.h"
#include "ddp/plan.h"
#include "gradwire/attachment.h"
#include "methods/method.h"

namespace gradwire {

// One bucket on its way: the first rounds of all its exchanges are under way when it is made.
struct Passage {
  at::Tensor buffer;
  std::vector<std::shared_ptr<Leg>> legs;
};

class Pipeline {
 public:
  Pipeline(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<Parameter> parameters,
           Request request, Plan plan);

  // Makes the process groups for later rounds, if the methods have any. Collective.
  void make_later_rounds(const MakeGroup& make_group);

  bool is_plain() const { return plan_.is_plain(); }
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  // Encodes the bucket and launches its collectives.
  std::unique_ptr<Passage> launch(c10d::GradBucket& bucket);
  // Waits for them and decodes: the bucket's buffer then holds the result.
  void complete(Passage& passage);

  // For a model that travels uncompressed and whose buckets do not come through here.
  void count_plain(bool begins_step, const at::Tensor& buffer);

  State state() const;
  void load_state(const State& state);
  Stats stats() const;

 private:
  void advance_step(size_t bucket);
  std::vector<std::vector<Slot>> slots_by_carrier(c10d::GradBucket& bucket);
  std::shared_ptr<Leg> start_leg(size_t carrier, std::vector<Slot> slots);
  void wait_for(Leg& leg);
  void count(const Leg& leg);
  std::string key_of(const std::string& rest) const;

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<Parameter> parameters_;
  Request request_;
  Plan plan_;
  std::unordered_map<const c10::TensorImpl*, size_t> index_of_;

  std::unique_ptr<LaterRounds> later_rounds_;

  mutable std::mutex mutex_;  // guards what follows: stats() may be called from any thread
  Stats stats_;
  size_t last_bucket_ = 0;
};

}  // namespace gradwire
