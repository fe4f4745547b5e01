#include "gradwire/attachment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ddp/bucket_layout.h"
#include "ddp/handshake.h"
#include "ddp/hook.h"
#include "ddp/pipeline.h"
#include "ddp/plain_group.h"
#include "ddp/saved_state.h"

namespace gradwire {

Attachment::Attachment(std::shared_ptr<Pipeline> pipeline, std::unique_ptr<BucketLayout> layout,
                       std::weak_ptr<c10d::Logger> logger)
    : pipeline_(std::move(pipeline)), layout_(std::move(layout)), logger_(std::move(logger)) {}
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
  auto pipeline = std::make_shared<Pipeline>(group, std::move(ours), request, std::move(plan),
                                             StepRecorder(reducer));
  pipeline->make_later_rounds(make_group);
  if (pipeline->is_plain()) {
    reducer->update_process_group(c10::make_intrusive<PlainGroup>(pipeline, layout->elements()));
  } else {
    reducer->register_comm_hook(std::make_unique<Hook>(pipeline));
  }
  return std::shared_ptr<Attachment>(
      new Attachment(std::move(pipeline), std::move(layout), logger));
}

void Attachment::announce_failure(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                  const std::string& reason) {
  Handshake(*group).fail(reason);
}

State Attachment::state() const {
  State state = pipeline_->state();
  state["buckets"] = layout_->next();
  return saved_state::with_worker(state, pipeline_->group()->getRank());
}

// Everything is checked before anything is changed.
void Attachment::load_state(const State& state) {
  const int worker = pipeline_->group()->getRank();
  const State saved = saved_state::without_worker(state, worker);
  saved_state::check_fits(saved_state::without_worker(this->state(), worker), saved);
  layout_->check(saved.at("buckets"));
  layout_->restore(saved.at("buckets").toTensor());
  pipeline_->load_state(saved);
}

void Attachment::divide_by_active_workers(bool value) {
  pipeline_->divide_by_active_workers(value);
}

Stats Attachment::stats() const { return pipeline_->stats(); }

// The Reducer measures it in each of the first ten steps, then in every hundredth. The mean has the
// first step in it, which may have compiled the model; the last may have been interrupted.
double Attachment::forward_seconds() const {
  const auto logger = logger_.lock();
  if (logger == nullptr) return 0;
  const auto figures = logger->get_ddp_logging_data().ints_map;
  const auto last = figures.find("forward_compute_time");
  const auto mean = figures.find("avg_forward_compute_time");
  if (last == figures.end() || mean == figures.end()) return 0;
  return static_cast<double>(std::max<int64_t>(0, std::min(last->second, mean->second))) * 1e-9;
}

std::string Attachment::profile() const {
  return pipeline_->profile(layout_->current(), forward_seconds());
}

}  // namespace gradwire
