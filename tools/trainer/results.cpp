#include "trainer/results.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "trainer/optimizer.h"

namespace gradwire::trainer {
namespace {

using nlohmann::json;

constexpr int64_t kMostLosses = 100;

double ratio(int64_t whole, int64_t part) {
  return part == 0 ? 1.0 : static_cast<double>(whole) / static_cast<double>(part);
}

json ratios_by_kind(const std::array<KindCounts, 3>& counts,
                    const std::array<KindCounts, 3>& before) {
  json ratios;
  for (size_t kind = 0; kind < counts.size(); ++kind) {
    ratios[kParameterKindNames[kind]] =
        ratio(counts[kind].gradient_bytes - before[kind].gradient_bytes,
              counts[kind].payload_bytes - before[kind].payload_bytes);
  }
  return ratios;
}

// All figures that can be added up.
json counts_of(const Stats& stats) {
  json by_kind = json::array();
  for (const KindCounts& kind : stats.by_kind) {
    by_kind.push_back({kind.gradient_bytes, kind.payload_bytes});
  }
  return {{"gradient_bytes", stats.gradient_bytes}, {"payload_bytes", stats.payload_bytes},
          {"sent_bytes", stats.sent_bytes},         {"dense_bytes", stats.dense_bytes},
          {"encode_seconds", stats.encode_seconds}, {"decode_seconds", stats.decode_seconds},
          {"wait_seconds", stats.wait_seconds},     {"by_kind", by_kind}};
}

Stats stats_with(const json& counts) {
  Stats stats;
  counts.at("gradient_bytes").get_to(stats.gradient_bytes);
  counts.at("payload_bytes").get_to(stats.payload_bytes);
  counts.at("sent_bytes").get_to(stats.sent_bytes);
  counts.at("dense_bytes").get_to(stats.dense_bytes);
  counts.at("encode_seconds").get_to(stats.encode_seconds);
  counts.at("decode_seconds").get_to(stats.decode_seconds);
  counts.at("wait_seconds").get_to(stats.wait_seconds);
  for (size_t kind = 0; kind < stats.by_kind.size(); ++kind) {
    stats.by_kind[kind] = {counts.at("by_kind").at(kind).at(0),
                           counts.at("by_kind").at(kind).at(1)};
  }
  return stats;
}

// A list of numbers. JSON has null in place of numbers that are not finite.
std::vector<double> numbers(const json& list) {
  std::vector<double> result;
  for (const json& number : list) {
    result.push_back(number.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                      : number.get<double>());
  }
  return result;
}

json to_json(const OptionMap& options) {
  json result = json::object();
  for (const auto& [name, value] : options) {
    std::visit([&, &key = name](const auto& held) { result[key] = held; }, value);
  }
  return result;
}

json to_json(const Counts& counts) {
  return {{"steps", counts.steps},
          {"payload_bytes", counts.payload_bytes},
          {"gradient_bytes", counts.gradient_bytes},
          {"code_ratio", counts.code_ratio()},
          {"code_ratio_by_kind", ratios_by_kind(counts.by_kind, {})},
          {"sent_bytes", counts.sent_bytes},
          {"dense_bytes", counts.dense_bytes},
          {"wire_ratio", counts.wire_ratio()},
          {"encode_seconds", counts.encode_seconds},
          {"decode_seconds", counts.decode_seconds},
          {"wait_seconds", counts.wait_seconds}};
}

}  // namespace

json to_json(const Stats& stats) {
  json result = to_json(static_cast<const Counts&>(stats));
  result["method"] = stats.method;
  result["plan"] = stats.plan;
  result["loss_class"] = kLossClassNames[static_cast<size_t>(stats.loss_class)];
  result["recent"] = to_json(stats.recent);
  return result;
}

Results::Results(const Request& method, const Settings& settings, int workers)
    : head_({{"method", method.method},
             {"options", to_json(method.options)},
             {"start_after", method.start_after},
             {"workers", workers},
             {"data", settings.data},
             {"model", settings.model},
             {"batch", settings.batch},
             {"optimizer", settings.optimizer},
             {"lr", settings.lr},
             {"weight_decay", weight_decay_of(settings)},
             {"clip", settings.clip},
             {"augment", settings.augment},
             {"seed", settings.seed}}) {
  head_["link"] = settings.link.empty() ? json() : json(settings.link);
  if (settings.seconds > 0) head_["seconds"] = settings.seconds;
}

void Results::add_step(const StepFigures& step) {
  step_losses_.push_back(step.loss);
  step_seconds_.push_back(step.seconds());
  note_seconds(step);
}

void Results::note_seconds(const StepFigures& step) {
  part_seconds_.load += step.load;
  part_seconds_.forward += step.forward;
  part_seconds_.backward += step.backward;
  part_seconds_.optimizer += step.optimizer;
}

double Results::mean_loss(int64_t first_step, int64_t end) const {
  const auto begin = step_losses_.begin();
  return std::accumulate(begin + first_step, begin + end, 0.0) /
         static_cast<double>(end - first_step);
}

std::vector<double> Results::losses() const {
  const auto steps = static_cast<int64_t>(step_losses_.size());
  const int64_t parts = std::min(steps, kMostLosses);
  std::vector<double> means;
  for (int64_t part = 0; part < parts; ++part) {
    means.push_back(mean_loss(steps * part / parts, steps * (part + 1) / parts));
  }
  return means;
}

int64_t Results::last_test() const {
  return epochs_.empty() ? 0 : epochs_.back().at("step").get<int64_t>();
}

Stats Results::in_all(Stats stats) const {
  stats.gradient_bytes += earlier_.gradient_bytes;
  stats.payload_bytes += earlier_.payload_bytes;
  stats.sent_bytes += earlier_.sent_bytes;
  stats.dense_bytes += earlier_.dense_bytes;
  stats.encode_seconds += earlier_.encode_seconds;
  stats.decode_seconds += earlier_.decode_seconds;
  stats.wait_seconds += earlier_.wait_seconds;
  for (size_t kind = 0; kind < stats.by_kind.size(); ++kind) {
    stats.by_kind[kind].gradient_bytes += earlier_.by_kind[kind].gradient_bytes;
    stats.by_kind[kind].payload_bytes += earlier_.by_kind[kind].payload_bytes;
  }
  return stats;
}

void Results::note_early(const Stats& stats) { early_ = ratios_by_kind(in_all(stats).by_kind, {}); }

EpochFigures Results::end_epoch(const json& epoch, double train_loss, const Evaluation& test,
                                const Stats& counted) {
  // The last epoch of a training that was made longer has been tested before it was complete.
  if (!epochs_.empty() && epochs_.back().at("epoch") == epoch) epochs_.erase(epochs_.size() - 1);
  const Stats stats = in_all(counted);
  const StepFigures& parts = part_seconds_;
  const double seconds = parts.seconds();
  epochs_.push_back(
      {{"epoch", epoch},
       {"step", step_seconds_.size()},
       {"train_loss", train_loss},
       {"test_loss", test.loss},
       {"test_accuracy", test.accuracy},
       {"seconds", seconds},
       {"elapsed_seconds", std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0)},
       {"sent_bytes", stats.sent_bytes},
       {"code_ratio_by_kind", ratios_by_kind(stats.by_kind, before_.by_kind)},
       {"seconds_by_part",
        {{"load", parts.load},
         {"forward", parts.forward},
         {"backward", parts.backward},
         {"optimizer", parts.optimizer},
         {"encode", stats.encode_seconds - before_.encode_seconds},
         {"wait", stats.wait_seconds - before_.wait_seconds},
         {"decode", stats.decode_seconds - before_.decode_seconds}}}});
  before_ = stats;
  part_seconds_ = {};
  return {.train_loss = train_loss, .seconds = seconds, .code_ratio = stats.code_ratio()};
}

// If an epoch was interrupted, its losses are kept; its other figures begin again in the resumed
// run.
json Results::saved(const Stats& stats) const {
  return {{"counts", counts_of(in_all(stats))},
          {"epochs", epochs_},
          {"early", early_},
          {"step_seconds", step_seconds_},
          {"step_losses", step_losses_}};
}

void Results::restore(const json& saved) {
  earlier_ = stats_with(saved.at("counts"));
  before_ = earlier_;
  epochs_ = saved.at("epochs");
  early_ = saved.at("early");
  step_seconds_ = numbers(saved.at("step_seconds"));
  step_losses_ = numbers(saved.at("step_losses"));
}

json Results::over_time(const std::vector<double>& losses) const {
  json list = json::array();
  double elapsed = 0;
  size_t step = 0;
  for (size_t part = 0; part < losses.size(); ++part) {
    const size_t end = step_seconds_.size() * (part + 1) / losses.size();
    for (; step < end; ++step) elapsed += step_seconds_[step];
    list.push_back({{"step", step}, {"loss", losses[part]}, {"seconds", elapsed}});
  }
  return list;
}

json Results::finished(const Stats& counted, const std::vector<double>& losses) const {
  const Stats stats = in_all(counted);
  json result = head_;
  result["steps"] = step_seconds_.size();
  result["epochs"] = epochs_;
  result["test_loss"] = epochs_.back().at("test_loss");
  result["losses"] = over_time(losses);
  result["wire"] = to_json(stats);
  result["early_code_ratio_by_kind"] =
      early_.is_null() ? ratios_by_kind(stats.by_kind, {}) : early_;
  result["seconds_per_step"] = torch::tensor(step_seconds_).quantile(0.5).item<double>();
  return result;
}

}  // namespace gradwire::trainer
