#include "gradwire/attachment.h"

#include <nlohmann/json.hpp>

#include "ddp/handshake.h"
#include "ddp/hook.h"
#include "ddp/pipeline.h"
#include "ddp/plain_group.h"

namespace gradwire {

Attachment::Attachment(std::shared_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}

std::shared_ptr<Attachment> Attachment::attach(const std::shared_ptr<c10d::Reducer>& reducer,
                                               const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                               const std::vector<NamedParameter>& parameters,
                                               const Request& request,
                                               const MakeGroup& make_group) {
  std::vector<Parameter> ours;
  for (const NamedParameter& parameter : parameters)
    ours.push_back({parameter.name, parameter.tensor});

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

  auto pipeline = std::make_shared<Pipeline>(group, std::move(ours), request, std::move(plan));
  pipeline->make_later_rounds(make_group);
  if (pipeline->is_plain()) {
    reducer->update_process_group(c10::make_intrusive<PlainGroup>(pipeline));
  } else {
    reducer->register_comm_hook(std::make_unique<Hook>(pipeline));
  }
  return std::shared_ptr<Attachment>(new Attachment(std::move(pipeline)));
}

void Attachment::announce_failure(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                  const std::string& reason) {
  Handshake(*group).fail(reason);
}

State Attachment::state() const { return pipeline_->state(); }
void Attachment::load_state(const State& state) { pipeline_->load_state(state); }
Stats Attachment::stats() const { return pipeline_->stats(); }

}  // namespace gradwire
