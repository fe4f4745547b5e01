#include "auto/auto_method.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "auto/device_speed.h"
#include "auto/probe.h"
#include "comm/peer_failure.h"
#include "methods/registry.h"
#include "planner/json_object.h"

namespace gradwire {
namespace {

// The first step has other buckets and cold caches.
constexpr int64_t kStepsBeforeFirstLook = 6;
// The first step of a trial does not count. Of the others, as many send acpsgd's factor P as Q.
constexpr int64_t kStepsOfATrial = 7;
constexpr int64_t kShortestPause = 10;
// A look costs a broadcast of a few bytes.
constexpr int64_t kLongestPause = 80;
// Steps that are as fast as expected cannot tell that the link has become faster.
constexpr int64_t kStepsBetweenProbes = 2000;
// The time of each of a probe's three collectives, in steps and in seconds.
constexpr double kProbeSteps = 4;
constexpr double kShortestProbe = 0.2;
constexpr double kLongestProbe = 1;

// A parameter's name as a pattern that matches nothing else.
std::string literal(const std::string& name) {
  std::string pattern;
  for (const char character : name) {
    if (std::strchr("*?[\\", character) != nullptr) pattern += '\\';
    pattern += character;
  }
  return pattern;
}

}  // namespace

AutoMethod::AutoMethod(Request request, c10::intrusive_ptr<c10d::ProcessGroup> group,
                       at::Device device)
    : request_(std::move(request)),
      options_(complete_options(find_method(kAuto), request_.options)),
      group_(std::move(group)),
      device_(device),
      next_look_(request_.start_after + kStepsBeforeFirstLook),
      pause_(kShortestPause) {}

int AutoMethod::rounds() const {
  int most = 1;
  for (const std::string& name : subset_of(options_.at("candidates"))) {
    const MethodEntry& entry = find_variant(name).method;
    most = std::max(most, entry.create(complete_options(entry, options_of(name)))->rounds());
  }
  return most;
}

OptionMap AutoMethod::options_of(const std::string& candidate) const {
  const FoundVariant found = find_variant(candidate);
  return with_rank(found.method, found.variant.options);
}

OptionMap AutoMethod::with_rank(const MethodEntry& method, OptionMap options) const {
  const bool has_rank =
      std::ranges::any_of(method.options, [](const auto& option) { return option.name == "rank"; });
  const int64_t rank = std::get<int64_t>(options_.at("rank"));  // 0: the method's own default
  if (has_rank && rank > 0) options["rank"] = rank;
  return options;
}

Request AutoMethod::with(const Decision& decision, Request request) const {
  for (const auto& [name, method] : decision.methods) {
    OptionMap options = options_of(method);
    options["method"] = find_variant(method).method.name;
    request.per_parameter.emplace_back(name == kWholeModel ? name : literal(name), options);
  }
  return request;
}

void AutoMethod::record_step(int64_t steps) {
  const Clock::time_point now = Clock::now();
  if (last_step_ >= 0 && steps > last_step_) {
    const std::chrono::duration<double> taken = now - last_time_;
    seconds_.push_back(taken.count() / static_cast<double>(steps - last_step_));
  }
  last_step_ = steps;
  last_time_ = now;
}

// The first step after a look does not count: it has the look in it, and what that has changed.
double AutoMethod::step_seconds() const {
  return usual_seconds({seconds_.begin() + 1, seconds_.end()});
}

bool AutoMethod::look(int64_t steps, const Job& job) {
  if (group_->getSize() < 2 || steps == last_step_) return false;
  record_step(steps);
  if (steps < next_look_) return false;
  const auto before = decision().methods;
  if (!contest_.is_over()) {
    try_next();
  } else if (seconds_.size() < 2) {
    return false;  // all workers alike: they have done the same steps
  } else if (is_time_to_measure(steps)) {
    measure_and_decide(job);
  }
  const bool has_changed = before != decision().methods;
  if (!contest_.is_over()) {
    pause_ = kStepsOfATrial;
  } else {
    // What proves stable is looked at less often.
    pause_ = has_changed ? kShortestPause : std::clamp(2 * pause_, kShortestPause, kLongestPause);
  }
  next_look_ = steps + pause_;
  seconds_.clear();
  last_time_ = Clock::now();
  return has_changed;
}

// A turn ends at the same step on all workers, even if a resumed run has had no time to measure.
void AutoMethod::try_next() {
  contest_.take_turn(seconds_.size() < 2 ? std::nullopt : std::optional(step_seconds()));
  share(contest_);
  if (contest_.is_over() && decision().methods != told_) tell(decision());
}

bool AutoMethod::is_time_to_measure(int64_t steps) const {
  const bool is_surprised = !has_decided_ || is_surprising(decision(), step_seconds());
  const bool first_worker_is = from_first_worker(is_surprised ? "yes" : "no") == "yes";
  return first_worker_is || steps - last_measured_ >= kStepsBetweenProbes;
}

void AutoMethod::measure_and_decide(const Job& job) {
  last_measured_ = last_step_;
  const double seconds = std::clamp(kProbeSteps * step_seconds(), kShortestProbe, kLongestProbe);
  const std::string common = from_first_worker(std::to_string(seconds));
  const planner::MeasuredLink link = with_other_workers(last_step_, [&] {
    return probe(*group_, {.seconds_per_collective = std::stod(common), .device = device_});
  });
  const planner::Device device = measure_speed(device_);
  share(group_->getRank() == 0 ? contest_on(link, device, job) : contest_);
  has_decided_ = true;
}

// The other workers are waiting for a decision, so there is one whatever happens.
Contest AutoMethod::contest_on(const planner::MeasuredLink& link, const planner::Device& device,
                               const Job& job) {
  Decision incumbent = decision();
  incumbent.expected_seconds = step_seconds();
  if (!incumbent.compresses()) incumbent.plain_seconds = step_seconds();
  try {
    std::vector<Decision> found =
        challengers(situation_on(link, device, job), incumbent, candidates());
    if (!found.empty() || !has_decided_) tell(found.empty() ? incumbent : found.front());
    return Contest(std::move(incumbent), std::move(found));
  } catch (const std::exception& error) {
    message_ = std::string("gradwire auto: could not decide, so nothing changes: ") + error.what();
    return Contest(std::move(incumbent));
  }
}

Situation AutoMethod::situation_on(const planner::MeasuredLink& link, const planner::Device& device,
                                   const Job& job) {
  Situation situation{.profile = job.profile(),
                      .network = {.workers = group_->getSize(),
                                  .between_nodes = link.link(),
                                  .all_reduce = planner::AllReduce::ring,
                                  .slowness = link.slowness()},
                      .step_seconds = step_seconds(),
                      .most_to_save = step_seconds()};
  situation.profile.rates = coding_rates(device, method_models());
  situation.profile.flops_per_second = device.flops_per_second;
  if (!has_decided_) {  // later, plain steps seldom run, and the Reducer seldom measures
    situation.most_to_save =
        exposed_communication(situation, job.waited_seconds() + situation.profile.lost_seconds);
    other_seconds_ = unexplained_seconds(situation, situation.most_to_save);
  }
  situation.other_seconds = other_seconds_;
  return situation;
}

void AutoMethod::tell(const Decision& decision) {
  if (group_->getRank() == 0) message_ = "gradwire " + describe(decision);
  told_ = decision.methods;
}

// Worker 0's, with all that is saved of it, because the states of the workers must not differ.
void AutoMethod::share(const Contest& contest) {
  std::string text;
  if (group_->getRank() == 0) {
    text = nlohmann::json{{"contest", to_json(contest)}, {"other_seconds", other_seconds_}}.dump();
  }
  const auto shared = nlohmann::json::parse(from_first_worker(text));
  contest_ = contest_from_json(shared.at("contest"));
  other_seconds_ = shared.at("other_seconds");
}

std::vector<planner::MethodChoice> AutoMethod::candidates() const {
  std::vector<planner::MethodChoice> choices;
  for (const std::string& name : subset_of(options_.at("candidates"))) {
    choices.push_back(choice_of(find_variant(name).method, options_of(name)));
  }
  return choices;
}

std::string AutoMethod::from_first_worker(const std::string& text) const {
  const at::NoGradGuard no_grad;
  const auto broadcast = [&](const at::Tensor& values) {
    const at::Tensor there = values.to(device_);
    std::vector<at::Tensor> tensors = {there};
    with_other_workers(last_step_, [&] { return group_->broadcast(tensors)->wait(); });
    return there.cpu();
  };
  const auto length =
      broadcast(at::full({1}, static_cast<int64_t>(text.size()), at::kLong)).item<int64_t>();
  at::Tensor bytes = at::zeros({length}, at::kByte);
  if (group_->getRank() == 0) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  bytes = broadcast(bytes);
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(length)};
}

std::string AutoMethod::saved() const {
  if (!has_decided_) return {};
  return nlohmann::json{
      {"contest", to_json(contest_)}, {"next_look", next_look_}, {"other_seconds", other_seconds_}}
      .dump();
}

AutoMethod::Saved AutoMethod::parse(const std::string& saved) {
  const auto json = nlohmann::json::parse(saved, nullptr, /*allow_exceptions=*/false);
  const planner::JsonObject object(json, "decision of auto");
  return {.contest = contest_from_json(object.at("contest")),
          .next_look = object.integer("next_look"),
          .other_seconds = object.number("other_seconds")};
}

Request AutoMethod::decided_in(const std::string& saved,
                               const std::map<std::string, std::string>& treatments) const {
  if (saved.empty()) return request_;
  const std::vector<std::string> allowed = subset_of(options_.at("candidates"));
  const Saved decided = parse(saved);
  for (const Decision& contender : decided.contest.contenders()) {
    for (const auto& [parameter, method] : contender.methods) {
      if (std::ranges::find(allowed, method) != allowed.end()) continue;
      throw std::invalid_argument(
          "the saved decision of auto has " + method + " for " + parameter +
          ", which is not among its candidates now; "
          "attach with the saved ones, and with delayed=True if they need it");
    }
  }
  Request request = request_;
  for (const auto& [pattern, candidate] : decided.contest.running().methods) {
    const MethodEntry& method = find_variant(candidate).method;
    for (const auto& [parameter, treatment] : treatments) {
      if (pattern != kWholeModel && pattern != parameter) continue;
      if (!treatment.starts_with(method.name + " ")) continue;
      OptionMap options = with_rank(method, parse_options(treatment.substr(method.name.size())));
      options["method"] = method.name;
      request.per_parameter.emplace_back(literal(parameter), options);
    }
  }
  return with(decided.contest.running(), std::move(request));
}

void AutoMethod::load(const std::string& saved, int64_t steps) {
  has_decided_ = !saved.empty();
  contest_ = Contest(Decision());
  pause_ = kShortestPause;
  next_look_ = std::max(next_look_, steps + kStepsBeforeFirstLook);
  if (has_decided_) {
    Saved decided = parse(saved);
    contest_ = std::move(decided.contest);
    other_seconds_ = decided.other_seconds;
    next_look_ = contest_.is_over() ? steps + pause_ : decided.next_look;
  }
  told_ = decision().methods;
  last_measured_ = steps;
  last_step_ = -1;
  seconds_.clear();
}

}  // namespace gradwire
