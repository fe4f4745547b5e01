#include "planner/choose.h"

#include <algorithm>
#include <cmath>

namespace gradwire::planner {
namespace {

constexpr double kLowestBandwidth = 10e6 / 8;
constexpr double kHighestBandwidth = 10e12 / 8;
constexpr int kScanSteps = 48;
constexpr int kBisections = 30;

std::vector<MethodChoice> by_loss(std::span<const MethodChoice> candidates) {
  std::vector<MethodChoice> sorted(candidates.begin(), candidates.end());
  if (std::ranges::none_of(sorted, [](const MethodChoice& c) { return c.model->is_plain(); })) {
    sorted.emplace_back();
  }
  std::ranges::stable_sort(sorted, {}, [](const MethodChoice& c) { return c.model->loss; });
  return sorted;
}

}  // namespace

MethodChoice choose(const Profile& profile, const Network& network,
                    std::span<const MethodChoice> candidates) {
  const std::vector<MethodChoice> choices = by_loss(candidates);
  std::vector<double> seconds;
  for (const MethodChoice& choice : choices) {
    seconds.push_back(simulate(profile, network, choice).seconds);
  }
  const double tolerated = (1 + kTolerance) * std::ranges::min(seconds);
  const auto first = std::ranges::find_if(seconds, [&](double each) { return each <= tolerated; });
  return choices[static_cast<size_t>(first - seconds.begin())];
}

BreakEven break_even(const Profile& profile, const Network& network, const MethodChoice& choice) {
  const auto helps_at = [&](double bandwidth) {
    Network at = network;
    at.between_nodes.bandwidth = bandwidth;
    return simulate(profile, at, choice).seconds < simulate(profile, at, {}).seconds;
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
