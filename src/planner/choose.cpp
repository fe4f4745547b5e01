#include "planner/choose.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gradwire::planner {
namespace {

constexpr double kLowestBandwidth = 10e6 / 8;
constexpr double kHighestBandwidth = 10e12 / 8;
constexpr int kScanSteps = 48;
constexpr int kBisections = 30;

// Of two methods of a class whose times differ by no more than this part, the less lossy is better.
constexpr double kTolerance = 0.02;

}  // namespace

double required_part(LossClass loss_class) {
  constexpr std::array kParts = {1.0, 0.90, 0.75};  // exact, rounded, delayed
  return kParts[static_cast<size_t>(loss_class)];
}

size_t best_of(std::span<const Timed> methods) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Timed* best = nullptr;
  double fastest = kNever;  // of the classes so far
  for (const LossClass loss_class : {LossClass::exact, LossClass::rounded, LossClass::delayed}) {
    double fastest_here = kNever;
    for (const Timed& each : methods) {
      if (loss_class_of(each.loss) == loss_class)
        fastest_here = std::min(fastest_here, each.seconds);
    }
    const bool is_short_enough =
        best == nullptr || fastest_here <= required_part(loss_class) * fastest;
    fastest = std::min(fastest, fastest_here);
    if (!is_short_enough) continue;
    const Timed* least_lossy = nullptr;
    for (const Timed& each : methods) {
      if (loss_class_of(each.loss) != loss_class) continue;
      if (each.seconds > (1 + kTolerance) * fastest_here) continue;
      if (least_lossy == nullptr || each.loss < least_lossy->loss) least_lossy = &each;
    }
    if (least_lossy != nullptr) best = least_lossy;
  }
  return static_cast<size_t>(best - methods.data());
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
