#include "planner/link_fit.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "planner/quantile.h"

namespace gradwire::planner {
namespace {

constexpr size_t kFewestPoints = 3;
constexpr size_t kSmallPoints = 5;

// The middle half of the repetitions, relative to their median.
double spread_of(const std::vector<double>& sorted) {
  return (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / quantile(sorted, 0.5);
}

struct Point {
  double x;
  double y;
  double lower_quartile;
};

struct Line {
  double intercept;
  double slope;
  double error(const Point& point) const { return intercept + slope * point.x - point.y; }
};

// Points in ascending order; the large ones that differ by no more than a factor of 10 in time.
std::span<const Point> large(std::span<const Point> points) {
  const auto first = std::ranges::find_if(
      points, [&](const Point& point) { return point.y * 10 >= points.back().y; });
  const auto count = static_cast<size_t>(points.end() - first);
  return points.last(std::max(kFewestPoints, count));
}

// The median of the slopes between any two, each weighing what lies between them: a point that is
// far off does not move it.
double slope_of(std::span<const Point> points) {
  struct Slope {
    double value;
    double weight;
  };
  std::vector<Slope> slopes;
  double weights = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double distance = points[i].x - points[j].x;
      slopes.push_back({(points[i].y - points[j].y) / distance, distance});
      weights += distance;
    }
  }
  std::ranges::sort(slopes, {}, &Slope::value);
  double below = 0;
  return std::ranges::find_if(
             slopes, [&](const Slope& slope) { return (below += slope.weight) >= weights / 2; })
      ->value;
}

// The large sizes know the bandwidth, the small ones the latency. Those in the middle belong to
// neither: buffers and the bursts that shapers let through carry much of them for nothing. Of the
// small ones the lower quartile counts: to wait for a processor takes ten times as long as they do.
Line fit_line(std::span<const Point> points) {
  double slope = slope_of(large(points));
  // Lost in noise: no more can be said than that everything may have been transfer.
  if (slope <= 0) slope = points.back().y / points.back().x;
  std::vector<double> intercepts;
  for (const Point& point : points.first(std::min(kSmallPoints, points.size()))) {
    const double transfer = slope * point.x;
    const bool is_small = transfer * 4 < point.lower_quartile;
    if (!is_small && !intercepts.empty()) break;
    intercepts.push_back(std::max(0.0, point.lower_quartile - transfer));
  }
  return {median(intercepts), slope};
}

double r_squared(const Line& line, const std::vector<Point>& points) {
  double sum = 0;
  for (const Point& point : points) sum += point.y;
  const double mean = sum / static_cast<double>(points.size());
  double unexplained = 0;
  double total = 0;
  for (const Point& point : points) {
    unexplained += std::pow(line.error(point), 2);
    total += std::pow(point.y - mean, 2);
  }
  return 1 - unexplained / total;
}

double relative_residual(const Line& line, const std::vector<Point>& points) {
  double squares = 0;
  for (const Point& point : points) squares += std::pow(line.error(point) / point.y, 2);
  return std::sqrt(squares / static_cast<double>(points.size()));
}

// What a ring among the workers takes of one byte each over this link.
Transfer of_one_byte(Collective collective, int64_t workers, const Link& link) {
  return cost_of(collective, 1,
                 {.workers = workers, .between_nodes = link, .all_reduce = AllReduce::ring});
}

}  // namespace

CollectiveFit fit_collective(Collective collective, int64_t workers,
                             std::span<const Timing> timings) {
  if (timings.size() < kFewestPoints) {
    throw std::invalid_argument("[probe] a fit needs the times of at least 3 sizes; got " +
                                std::to_string(timings.size()));
  }
  std::vector<Point> points;
  std::vector<double> spreads;
  for (const Timing& timing : timings) {
    std::vector<double> seconds = timing.seconds;
    std::ranges::sort(seconds);
    points.push_back({timing.bytes, quantile(seconds, 0.5), quantile(seconds, 0.25)});
    spreads.push_back(spread_of(seconds));
  }
  const Line line = fit_line(points);
  const double messages = of_one_byte(collective, workers, {.latency = 1}).latency;
  const double bytes = of_one_byte(collective, workers, {.bandwidth = 1}).seconds;
  return {.latency = line.intercept / messages,
          .bandwidth = bytes / line.slope,
          .residual = relative_residual(line, points),
          .r_squared = r_squared(line, points),
          .spread = median(spreads)};
}

}  // namespace gradwire::planner
