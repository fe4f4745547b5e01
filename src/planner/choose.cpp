#include "planner/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace gradwire::planner {
namespace {

constexpr double kLowestBandwidth = 10e6 / 8;
constexpr double kHighestBandwidth = 10e12 / 8;
constexpr int kScanSteps = 48;
constexpr int kBisections = 30;

std::vector<MethodChoice> by_loss(std::span<const MethodChoice> candidates) {
  std::vector<MethodChoice> sorted(candidates.begin(), candidates.end());
  if (std::ranges::none_of(sorted,
                           [](const MethodChoice& c) { return c.method == Method::allreduce; })) {
    sorted.push_back({.method = Method::allreduce});
  }
  std::ranges::stable_sort(sorted, {}, &MethodChoice::method);
  return sorted;
}

class BucketSearch {
 public:
  BucketSearch(const Profile& profile, const Network& network,
               std::span<const MethodChoice> candidates)
      : profile_(profile), network_(network), candidates_(by_loss(candidates)) {}

  Choice run() {
    std::vector<Choice> starts;
    for (const MethodChoice& candidate : candidates_) {
      const Assignment assignment = same_for_all(profile_, candidate);
      starts.push_back({assignment, simulate(profile_, network_, assignment)});
    }
    starts.push_back(made_faster(*std::ranges::min_element(starts, {}, seconds_of)));
    const double limit = (1 + kTolerance) * seconds_of(starts.back());
    std::optional<Choice> best;
    for (const Choice& start : starts) {
      if (seconds_of(start) > limit) continue;
      Choice choice = made_less_lossy(start, limit);
      if (!best || loss_of(choice) < loss_of(*best)) best = std::move(choice);
    }
    return *best;
  }

 private:
  static double seconds_of(const Choice& choice) { return choice.prediction.seconds; }

  double loss_of(const Choice& choice) const {
    double loss = 0;
    for (size_t i = 0; i < profile_.buckets.size(); ++i) {
      const auto place = static_cast<double>(index_of(choice.assignment[i].method));
      for (const size_t parameter : profile_.buckets[i].parameters) {
        loss += place * profile_.parameters[parameter].bytes();
      }
    }
    return loss;
  }

  Choice changed(const Choice& from, size_t bucket, const MethodChoice& candidate) const {
    Choice choice = from;
    choice.assignment[bucket] = candidate;
    choice.prediction = simulate(profile_, network_, choice.assignment);
    return choice;
  }

  Choice made_faster(Choice best) const {
    for (size_t bucket = 0; bucket < profile_.buckets.size(); ++bucket) {
      for (const MethodChoice& candidate : candidates_) {
        Choice choice = changed(best, bucket, candidate);
        if (seconds_of(choice) < seconds_of(best)) best = std::move(choice);
      }
    }
    return best;
  }

  // From the first bucket on: what becomes ready first has the most of backward to hide behind.
  Choice made_less_lossy(Choice best, double limit) const {
    for (size_t bucket = 0; bucket < profile_.buckets.size(); ++bucket) {
      for (const MethodChoice& candidate : candidates_) {
        if (candidate.method >= best.assignment[bucket].method) break;
        Choice choice = changed(best, bucket, candidate);
        if (seconds_of(choice) <= limit) {
          best = std::move(choice);
          break;
        }
      }
    }
    return best;
  }

  const Profile& profile_;
  const Network& network_;
  std::vector<MethodChoice> candidates_;
};

}  // namespace

Choice choose_for_all(const Profile& profile, const Network& network,
                      std::span<const MethodChoice> candidates) {
  std::vector<Choice> choices;
  double fastest = std::numeric_limits<double>::infinity();
  for (const MethodChoice& candidate : by_loss(candidates)) {
    const Assignment assignment = same_for_all(profile, candidate);
    choices.push_back({assignment, simulate(profile, network, assignment)});
    fastest = std::min(fastest, choices.back().prediction.seconds);
  }
  return *std::ranges::find_if(choices, [&](const Choice& choice) {
    return choice.prediction.seconds <= (1 + kTolerance) * fastest;
  });
}

Choice choose_per_bucket(const Profile& profile, const Network& network,
                         std::span<const MethodChoice> candidates) {
  return BucketSearch(profile, network, candidates).run();
}

BreakEven break_even(const Profile& profile, const Network& network, const MethodChoice& choice) {
  const Assignment method = same_for_all(profile, choice);
  const Assignment plain = same_for_all(profile, {.method = Method::allreduce});
  const auto helps_at = [&](double bandwidth) {
    Network at = network;
    at.between_nodes.bandwidth = bandwidth;
    return simulate(profile, at, method).seconds < simulate(profile, at, plain).seconds;
  };
  const double factor = std::pow(kHighestBandwidth / kLowestBandwidth, 1.0 / kScanSteps);
  // Down from the top: a method may help in a range only.
  double lower = kHighestBandwidth;
  while (!helps_at(lower)) {
    lower /= factor;
    if (lower < 0.999 * kLowestBandwidth) return {Helps::never};
  }
  if (lower == kHighestBandwidth) return {Helps::always};
  double upper = lower * factor;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = std::sqrt(lower * upper);
    (helps_at(middle) ? lower : upper) = middle;
  }
  return {Helps::below, lower};
}

}  // namespace gradwire::planner
