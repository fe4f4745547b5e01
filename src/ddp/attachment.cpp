#include "gradwire/attachment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "auto/auto_method.h"
#include "auto/recorded_profile.h"
#include "auto/step_recorder.h"
#include "comm/handshake.h"
#include "ddp/bucket_layout.h"
#include "ddp/hook.h"
#include "ddp/plain_group.h"
#include "engine/agreement.h"
#include "engine/engine.h"
#include "engine/saved_state.h"
#include "planner/profile_json.h"

namespace gradwire {

struct Attachment::Impl {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<StepDetector> detector;
  std::shared_ptr<StepRecorder> recorder;
  BucketLayout layout;
  std::unique_ptr<AutoMethod> automatic;  // null: another method
  std::weak_ptr<c10d::Reducer> reducer;
  std::weak_ptr<c10d::Logger> logger;
  bool has_hook = false;

  void install_hook();
  void adopt(Routes routes);
  void add_own_to(State& state) const;
  double logged_seconds(const std::string& figure) const;
  planner::Profile profile() const;
};

// A Reducer takes a hook at any time, and keeps it.
void Attachment::Impl::install_hook() {
  const auto living = reducer.lock();
  if (has_hook || living == nullptr) return;
  living->register_comm_hook(std::make_unique<Hook>(engine, detector, recorder));
  has_hook = true;
}

void Attachment::Impl::adopt(Routes routes) {
  engine->adopt(std::move(routes));
  recorder->forget();
  if (!engine->is_plain()) install_hook();
}

void Attachment::Impl::add_own_to(State& state) const {
  state["buckets"] = layout.next();
  if (automatic != nullptr) state["auto"] = automatic->saved();
}

// The Reducer measures them in each of the first ten steps, then in every hundredth. The mean has
// the first step in it, which may have compiled the model; the last may have been interrupted.
double Attachment::Impl::logged_seconds(const std::string& figure) const {
  const auto living = logger.lock();
  if (living == nullptr) return 0;
  const auto figures = living->get_ddp_logging_data().ints_map;
  const auto last = figures.find(figure);
  const auto mean = figures.find("avg_" + figure);
  if (last == figures.end() || mean == figures.end()) return 0;
  return static_cast<double>(std::max<int64_t>(0, std::min(last->second, mean->second))) * 1e-9;
}

planner::Profile Attachment::Impl::profile() const {
  return recorded_profile({.request = engine->request(),
                           .is_plain = engine->is_plain(),
                           .parameters = engine->parameters(),
                           .buckets = layout.current(),
                           .workers = engine->group()->getSize(),
                           .forward_seconds = logged_seconds("forward_compute_time")},
                          *recorder);
}

Attachment::Attachment(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
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
  Routes routes = agree_on_routes(*group, request, ours);

  BucketLayout layout(reducer, known, bucket_caps);
  std::unique_ptr<AutoMethod> automatic;
  if (request.method == kAuto) {
    automatic = std::make_unique<AutoMethod>(request, group, known.front().tensor.device());
  }
  // `auto` needs groups for whatever it will choose: none can be made in the middle of a training.
  const int rounds = automatic == nullptr ? routes.rounds() : automatic->rounds();
  auto engine = std::make_shared<Engine>(Courier(group, make_group, rounds), std::move(ours),
                                         request, std::move(routes));
  auto detector = std::make_shared<StepDetector>(layout.elements());
  auto recorder = std::make_shared<StepRecorder>(reducer);
  std::shared_ptr<Attachment> attachment(new Attachment(std::unique_ptr<Impl>(new Impl{
      engine, detector, recorder, std::move(layout), std::move(automatic), reducer, logger})));
  if (engine->is_plain()) {
    reducer->update_process_group(c10::make_intrusive<PlainGroup>(engine, detector, recorder));
  } else {
    attachment->impl_->install_hook();
  }
  return attachment;
}

void Attachment::announce_failure(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                  const std::string& reason) {
  Handshake(*group).fail(reason);
}

std::string Attachment::before_step() {
  if (impl_->automatic == nullptr) return {};
  const auto waited_seconds = [&] {
    return std::max(0.0, impl_->logged_seconds("backward_comm_time") -
                             impl_->logged_seconds("backward_compute_comm_overlap_time"));
  };
  AutoMethod& automatic = *impl_->automatic;
  const bool has_changed = automatic.look(
      impl_->engine->counters().steps(),
      {.profile = [&] { return impl_->profile(); }, .waited_seconds = waited_seconds});
  if (has_changed) impl_->adopt(make_routes(automatic.decided(), impl_->engine->parameters()));
  return automatic.take_message();
}

State Attachment::state() const {
  State state = impl_->engine->state();
  impl_->add_own_to(state);
  return saved_state::with_worker(state, impl_->engine->group()->getRank());
}

// Everything is checked before anything is changed.
void Attachment::load_state(const State& state) {
  Engine& engine = *impl_->engine;
  State saved = saved_state::without_worker(state, engine.group()->getRank());
  const auto decision = saved.find("auto");
  std::optional<Routes> routes;
  if (impl_->automatic != nullptr && decision != saved.end() && decision->second.isString()) {
    routes = make_routes(impl_->automatic->decided_in(decision->second.toStringRef(),
                                                      saved_state::treatments_in(saved)),
                         engine.parameters());
  }
  State current = routes ? engine.state_with(*routes) : engine.state();
  impl_->add_own_to(current);
  saved = saved_state::fitting(current, std::move(saved));
  impl_->layout.check(saved.at("buckets"));
  impl_->layout.restore(saved.at("buckets").toTensor());
  if (routes) {
    impl_->adopt(std::move(*routes));
    impl_->automatic->load(saved.at("auto").toStringRef(), saved.at("steps").toInt());
  }
  engine.load_state(saved);
  impl_->detector->reset();
}

void Attachment::divide_by_active_workers(bool value) {
  impl_->engine->divide_by_active_workers(value);
}

Stats Attachment::stats() const { return impl_->engine->counters().stats(); }
double Attachment::residual_norm() const { return impl_->engine->residual_norm(); }
std::string Attachment::describe() const { return impl_->engine->describe(); }

std::string Attachment::profile() const {
  nlohmann::json json = to_json(impl_->profile());
  json.erase("rates");  // of other methods nothing is known
  return json.dump();
}

}  // namespace gradwire
