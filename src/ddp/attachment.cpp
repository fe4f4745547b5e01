#include "gradwire/attachment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "auto/auto_method.h"
#include "ddp/bucket_layout.h"
#include "comm/handshake.h"
#include "ddp/hook.h"
#include "engine/engine.h"
#include "ddp/plain_group.h"
#include "engine/saved_state.h"
#include "planner/profile_json.h"

namespace gradwire {

Attachment::Attachment(std::shared_ptr<Engine> engine, std::unique_ptr<BucketLayout> layout,
                       std::unique_ptr<AutoMethod> automatic, std::weak_ptr<c10d::Reducer> reducer,
                       std::weak_ptr<c10d::Logger> logger)
    : engine_(std::move(engine)),
      layout_(std::move(layout)),
      auto_(std::move(automatic)),
      reducer_(std::move(reducer)),
      logger_(std::move(logger)) {}
Attachment::~Attachment() = default;

std::shared_ptr<Attachment> Attachment::attach(const std::shared_ptr<c10d::Reducer>& reducer,
                                               const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                               const std::vector<NamedParameter>& parameters,
                                               const Request& request, const MakeGroup& make_group,
                                               const std::vector<size_t>& bucket_caps,
                                               const std::shared_ptr<c10d::Logger>& logger) {
  const std::vector<NamedParameter> known = known_to(*reducer, parameters);
  std::vector<Parameter> ours;
  for (const NamedParameter& parameter : known) ours.push_back({parameter.name, parameter.tensor});

  Handshake handshake(*group);
  Plan plan;
  try {
    plan = make_plan(request, ours);
  } catch (const std::exception& error) {
    handshake.fail(error.what());
    throw;
  }
  handshake.agree(describe(request, ours), request.handshake_timeout);
  handshake.agree_on_simd_target();

  auto layout = std::make_unique<BucketLayout>(reducer, known, bucket_caps);
  auto engine = std::make_shared<Engine>(group, std::move(ours), request, std::move(plan),
                                             StepRecorder(reducer));
  std::unique_ptr<AutoMethod> automatic;
  if (request.method == kAuto) {
    automatic = std::make_unique<AutoMethod>(request, group, known.front().tensor.device());
  }
  // For whatever it will choose: groups cannot be made in the middle of a training.
  engine->make_later_rounds(make_group, automatic == nullptr ? 1 : automatic->rounds());
  const bool is_plain = engine->is_plain();
  if (is_plain) {
    reducer->update_process_group(c10::make_intrusive<PlainGroup>(engine, layout->elements()));
  }
  std::shared_ptr<Attachment> attachment(new Attachment(std::move(engine), std::move(layout),
                                                        std::move(automatic), reducer, logger));
  if (!is_plain) attachment->install_hook();
  return attachment;
}

// A Reducer takes a hook at any time, and keeps it.
void Attachment::install_hook() {
  const auto reducer = reducer_.lock();
  if (has_hook_ || reducer == nullptr) return;
  reducer->register_comm_hook(std::make_unique<Hook>(engine_));
  has_hook_ = true;
}

void Attachment::adopt(Plan plan) {
  engine_->adopt(std::move(plan));
  if (!engine_->is_plain()) install_hook();
}

std::string Attachment::before_step() {
  if (auto_ == nullptr) return {};
  const bool has_changed = auto_->look(
      engine_->steps(),
      {.profile =
           [&] {
             return engine_->profile(layout_->current(), logged_seconds("forward_compute_time"));
           },
       .waited_seconds =
           [&] {
             return std::max(0.0, logged_seconds("backward_comm_time") -
                                      logged_seconds("backward_compute_comm_overlap_time"));
           }});
  if (has_changed) adopt(make_plan(auto_->decided(), engine_->parameters()));
  return auto_->take_message();
}

void Attachment::announce_failure(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                  const std::string& reason) {
  Handshake(*group).fail(reason);
}

State Attachment::state() const {
  State state = engine_->state();
  add_own_to(state);
  return saved_state::with_worker(state, engine_->group()->getRank());
}

void Attachment::add_own_to(State& state) const {
  state["buckets"] = layout_->next();
  if (auto_ != nullptr) state["auto"] = auto_->saved();
}

// Everything is checked before anything is changed.
void Attachment::load_state(const State& state) {
  const int worker = engine_->group()->getRank();
  const State saved = saved_state::without_worker(state, worker);
  const auto decision = saved.find("auto");
  const bool has_decision =
      auto_ != nullptr && decision != saved.end() && decision->second.isString();
  std::optional<Plan> plan;
  if (has_decision) {
    plan = make_plan(auto_->decided_in(decision->second.toStringRef()), engine_->parameters());
  }
  State current = plan ? engine_->state_with(*plan) : engine_->state();
  add_own_to(current);
  saved_state::check_fits(current, saved);
  layout_->check(saved.at("buckets"));
  layout_->restore(saved.at("buckets").toTensor());
  if (plan) {
    adopt(std::move(*plan));
    auto_->load(decision->second.toStringRef(), saved.at("steps").toInt());
  }
  engine_->load_state(saved);
}

void Attachment::divide_by_active_workers(bool value) {
  engine_->divide_by_active_workers(value);
}

Stats Attachment::stats() const { return engine_->stats(); }

// The Reducer measures them in each of the first ten steps, then in every hundredth. The mean has
// the first step in it, which may have compiled the model; the last may have been interrupted.
double Attachment::logged_seconds(const std::string& figure) const {
  const auto logger = logger_.lock();
  if (logger == nullptr) return 0;
  const auto figures = logger->get_ddp_logging_data().ints_map;
  const auto last = figures.find(figure);
  const auto mean = figures.find("avg_" + figure);
  if (last == figures.end() || mean == figures.end()) return 0;
  return static_cast<double>(std::max<int64_t>(0, std::min(last->second, mean->second))) * 1e-9;
}

std::string Attachment::profile() const {
  nlohmann::json json =
      to_json(engine_->profile(layout_->current(), logged_seconds("forward_compute_time")));
  json.erase("rates");  // of other methods nothing is known
  return json.dump();
}

}  // namespace gradwire
