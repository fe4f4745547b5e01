#include "trainer/results.h"

#include <algorithm>

namespace gradwire::trainer {
namespace {

using nlohmann::json;

double ratio(int64_t whole, int64_t part) {
  return part == 0 ? 1.0 : static_cast<double>(whole) / static_cast<double>(part);
}

json ratios_by_kind(const std::array<KindStats, 3>& counts,
                    const std::array<KindStats, 3>& before) {
  json ratios;
  for (size_t kind = 0; kind < counts.size(); ++kind) {
    ratios[kParameterKindNames[kind]] =
        ratio(counts[kind].gradient_bytes - before[kind].gradient_bytes,
              counts[kind].payload_bytes - before[kind].payload_bytes);
  }
  return ratios;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

json to_json(const OptionMap& options) {
  json result = json::object();
  for (const auto& [name, value] : options) {
    std::visit([&, &key = name](const auto& held) { result[key] = held; }, value);
  }
  return result;
}

}  // namespace

json to_json(const Stats& stats) {
  return {{"method", stats.method},
          {"steps", stats.steps},
          {"payload_bytes", stats.payload_bytes},
          {"gradient_bytes", stats.gradient_bytes},
          {"code_ratio", stats.code_ratio()},
          {"code_ratio_by_kind", ratios_by_kind(stats.by_kind, {})},
          {"sent_bytes", stats.sent_bytes},
          {"dense_bytes", stats.dense_bytes},
          {"wire_ratio", stats.wire_ratio()},
          {"encode_seconds", stats.encode_seconds},
          {"decode_seconds", stats.decode_seconds},
          {"wait_seconds", stats.wait_seconds},
          {"residual_norm", stats.residual_norm},
          {"plan", stats.plan}};
}

Results::Results(const Request& method, const Settings& settings, int workers)
    : head_({{"method", method.method},
             {"options", to_json(method.options)},
             {"workers", workers},
             {"data", settings.data},
             {"model", settings.model},
             {"batch", settings.batch},
             {"optimizer", settings.optimizer},
             {"lr", settings.lr},
             {"seed", settings.seed}}) {}

void Results::add_step(const StepFigures& step) {
  last_loss_ = step.loss;
  loss_sum_ += step.loss;
  ++steps_;
  step_seconds_.push_back(step.load + step.forward + step.backward + step.optimizer);
  note_seconds(step);
}

void Results::note_seconds(const StepFigures& step) {
  part_seconds_.load += step.load;
  part_seconds_.forward += step.forward;
  part_seconds_.backward += step.backward;
  part_seconds_.optimizer += step.optimizer;
}

double Results::epoch_loss() const {
  return steps_ == 0 ? 0 : loss_sum_ / static_cast<double>(steps_);
}

void Results::note_early(const Stats& stats) { early_ = ratios_by_kind(stats.by_kind, {}); }

EpochFigures Results::end_epoch(int64_t epoch, double train_loss, const Evaluation& test,
                                const Stats& stats) {
  const StepFigures& parts = part_seconds_;
  const double seconds = parts.load + parts.forward + parts.backward + parts.optimizer;
  epochs_.push_back({{"epoch", epoch},
                     {"train_loss", train_loss},
                     {"test_loss", test.loss},
                     {"test_accuracy", test.accuracy},
                     {"seconds", seconds},
                     {"sent_bytes", stats.sent_bytes},
                     {"code_ratio_by_kind", ratios_by_kind(stats.by_kind, before_.by_kind)},
                     {"seconds_by_part",
                      {{"load", parts.load},
                       {"forward", parts.forward},
                       {"backward", parts.backward},
                       {"optimizer", parts.optimizer},
                       {"encode", stats.encode_seconds - before_.encode},
                       {"wait", stats.wait_seconds - before_.wait},
                       {"decode", stats.decode_seconds - before_.decode}}}});
  before_ = {.by_kind = stats.by_kind,
             .encode = stats.encode_seconds,
             .decode = stats.decode_seconds,
             .wait = stats.wait_seconds};
  loss_sum_ = 0;
  steps_ = 0;
  part_seconds_ = {};
  return {.train_loss = train_loss, .seconds = seconds, .code_ratio = stats.code_ratio()};
}

// The counts of the method start anew in a resumed run, and so do the figures of an epoch that was
// interrupted, but for its loss.
json Results::saved() const {
  return {{"epochs", epochs_},
          {"early", early_},
          {"step_seconds", step_seconds_},
          {"loss_sum", loss_sum_},
          {"steps", steps_}};
}

void Results::restore(const json& saved) {
  epochs_ = saved.at("epochs");
  early_ = saved.at("early");
  step_seconds_ = saved.at("step_seconds").get<std::vector<double>>();
  loss_sum_ = saved.at("loss_sum");
  steps_ = saved.at("steps");
}

json Results::finished(const Stats& stats) const {
  json result = head_;
  result["steps"] = step_seconds_.size();
  result["epochs"] = epochs_;
  result["wire"] = to_json(stats);
  result["early_code_ratio_by_kind"] =
      early_.is_null() ? ratios_by_kind(stats.by_kind, {}) : early_;
  result["seconds_per_step"] = median(step_seconds_);
  return result;
}

}  // namespace gradwire::trainer
