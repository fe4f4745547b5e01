#include "planner/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "planner/quantity.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

Network network_at(const SweepRequest& request, int64_t workers, double bandwidth) {
  Network network = request.network;
  network.workers = workers;
  network.between_nodes.bandwidth = bandwidth;
  network.check();
  return network;
}

// Every figure of a request has a limit; this is for what they make together.
void require_finite(const SweepRequest& request, const SweepPoint& point) {
  for (size_t i = 0; i < request.methods.size(); ++i) {
    if (std::isfinite(point.predictions[i].seconds) && std::isfinite(point.speed_up(i))) continue;
    throw std::invalid_argument("[plan] the prediction for " + request.methods[i].model->name +
                                " is not finite: a figure of the job or the link is too large");
  }
}

const MethodModel* recommended(const SweepRequest& request, const SweepPoint& point, bool delayed) {
  std::vector<const MethodModel*> models = {&plain_all_reduce()};
  std::vector<Timed> timed = {{plain_all_reduce().loss, point.allreduce_seconds}};
  for (size_t i = 0; i < request.methods.size(); ++i) {
    const MethodModel* model = request.methods[i].model;
    if (!model->is_candidate || (!delayed && model->loss_class() == LossClass::delayed)) continue;
    models.push_back(model);
    timed.push_back({model->loss, point.predictions[i].seconds});
  }
  return models[best_of(timed)];
}

SweepPoint point_at(const SweepRequest& request, int64_t workers, double bandwidth) {
  const Network network = network_at(request, workers, bandwidth);
  SweepPoint point{.workers = workers, .bandwidth = bandwidth};
  point.allreduce_seconds = simulate(request.profile, network, {}).seconds;
  for (const MethodChoice& method : request.methods) {
    point.predictions.push_back(simulate(request.profile, network, method));
  }
  require_finite(request, point);
  point.recommended_delayed = recommended(request, point, /*delayed=*/true);
  point.recommended =
      request.delayed ? point.recommended_delayed : recommended(request, point, /*delayed=*/false);
  return point;
}

double speed_up_of(const SweepRequest& request, const SweepPoint& point, const MethodModel* model) {
  for (size_t i = 0; i < request.methods.size(); ++i) {
    if (request.methods[i].model == model) return point.speed_up(i);
  }
  return 1;
}

// Where one method is the recommended one.
struct Realm {
  double lowest_bandwidth;
  double highest_bandwidth;
  double greatest_speed_up;
  int points = 1;
};

struct ByLoss {
  bool operator()(const MethodModel* one, const MethodModel* other) const {
    return std::tie(one->loss, one->name) < std::tie(other->loss, other->name);
  }
};
using Realms = std::map<const MethodModel*, Realm, ByLoss>;

// `which` of each point; points where `counts` is false are left out.
template <typename Counts>
Realms realms(const SweepRequest& request, const Sweep& sweep,
              const MethodModel* SweepPoint::*which, const Counts& counts) {
  Realms found;
  for (const SweepPoint& point : sweep.points) {
    if (!counts(point)) continue;
    const double speed_up = speed_up_of(request, point, point.*which);
    const auto [realm, is_new] =
        found.try_emplace(point.*which, Realm{point.bandwidth, point.bandwidth, speed_up});
    if (is_new) continue;
    Realm& known = realm->second;
    ++known.points;
    known.lowest_bandwidth = std::min(known.lowest_bandwidth, point.bandwidth);
    known.highest_bandwidth = std::max(known.highest_bandwidth, point.bandwidth);
    known.greatest_speed_up = std::max(known.greatest_speed_up, speed_up);
  }
  return found;
}

Realms recommended_realms(const SweepRequest& request, const Sweep& sweep) {
  return realms(request, sweep, &SweepPoint::recommended, [](const SweepPoint&) { return true; });
}

std::string describe(const Realm& realm) {
  const std::string lowest = describe_bandwidth(realm.lowest_bandwidth);
  const std::string highest = describe_bandwidth(realm.highest_bandwidth);
  return "at " + (lowest == highest ? lowest : lowest + " to " + highest);
}

std::string describe_speed_up(const Realm& realm) {
  char text[64];
  std::snprintf(text, sizeof text, " (%s%.3g times as fast)", realm.points == 1 ? "" : "up to ",
                realm.greatest_speed_up);
  return text;
}

// "half at 10 Gb/s (1.79 times as fast), quant at 1 Gb/s (3.8 times as fast)"
std::string describe(const Realms& realms) {
  std::string text;
  for (const auto& [method, realm] : realms) {
    text += (text.empty() ? "" : ", ") + method->name + " " + describe(realm) +
            describe_speed_up(realm);
  }
  return text;
}

// "no rounded method makes steps 10 % shorter"
std::string bar_of(LossClass loss_class) {
  const long percent = std::lround(100 * (1 - required_part(loss_class)));
  return "no " + name_of(loss_class) + " method makes steps " + std::to_string(percent) +
         " % shorter";
}

bool depends_on_workers(const Sweep& sweep) {
  std::map<double, const MethodModel*> recommended;
  return std::ranges::any_of(sweep.points, [&](const SweepPoint& point) {
    return recommended.try_emplace(point.bandwidth, point.recommended).first->second !=
           point.recommended;
  });
}

json to_json(const BreakEven& where) {
  switch (where.helps) {
    case Helps::never:
      return "never";
    case Helps::always:
      return "always";
    case Helps::below:
      return where.bandwidth * 8 / 1e9;
  }
  throw std::logic_error("not an answer");
}

}  // namespace

std::vector<SweepPoint> sweep_points(const SweepRequest& request) {
  request.profile.check();
  std::vector<SweepPoint> points;
  for (const int64_t workers : request.workers) {
    for (const double bandwidth : request.bandwidths) {
      points.push_back(point_at(request, workers, bandwidth));
    }
  }
  return points;
}

Sweep sweep(const SweepRequest& request) {
  Sweep result{.points = sweep_points(request)};
  for (const int64_t workers : request.workers) {
    std::vector<BreakEven>& row = result.break_even.emplace_back();
    for (const MethodChoice& method : request.methods) {
      row.push_back(break_even(request.profile,
                               network_at(request, workers, request.bandwidths.front()), method));
    }
  }
  return result;
}

std::string advice(const SweepRequest& request, const Sweep& sweep) {
  Realms found = recommended_realms(request, sweep);
  const auto plain = found.extract(&plain_all_reduce());
  if (found.empty()) {
    return "Stay with all-reduce: " + bar_of(LossClass::rounded) +
           (request.delayed ? ", and " + bar_of(LossClass::delayed) : "") +
           (sweep.points.size() == 1 ? "." : " at any of these settings.");
  }
  std::string uses = "Use " + describe(found);
  if (plain) uses += ", and stay with all-reduce " + describe(plain.mapped());
  return uses + (depends_on_workers(sweep) ? ", depending on the number of workers." : ".");
}

std::vector<MethodChoice> advised(const SweepRequest& request, const Sweep& sweep) {
  std::vector<MethodChoice> choices;
  for (const auto& [model, realm] : recommended_realms(request, sweep)) {
    for (const MethodChoice& method : request.methods) {
      if (method.model == model && !model->is_plain()) choices.push_back(method);
    }
  }
  return choices;
}

std::string possibility(const SweepRequest& request, const Sweep& sweep) {
  const Realms found = realms(
      request, sweep, &SweepPoint::recommended_delayed,
      [](const SweepPoint& point) { return point.recommended_delayed != point.recommended; });
  if (found.empty()) return "";
  return "If a part of the gradient may arrive steps later, which costs accuracy in short "
         "trainings (--delayed): " +
         describe(found) + ".";
}

json to_json(const SweepRequest& request, const Sweep& sweep) {
  json result = {{"model", request.profile.name},
                 {"compute_seconds", request.profile.compute_seconds()},
                 {"gradient_bytes", request.profile.gradient_bytes()},
                 {"buckets", request.profile.buckets.size()},
                 {"latency_seconds", request.network.between_nodes.latency},
                 {"workers_per_node", request.network.workers_per_node},
                 {"methods", json::object()},
                 {"points", json::array()},
                 {"break_even_gbit_per_s", json::array()},
                 {"advice", advice(request, sweep)},
                 {"advised", json::array()},
                 {"possibility", possibility(request, sweep)},
                 {"read_on", kReadOn}};
  for (const MethodChoice& method : request.methods) {
    result["methods"][method.model->name] = {{"loss_class", name_of(method.model->loss_class())},
                                             {"recipe", method.recipe()}};
  }
  for (const MethodChoice& method : advised(request, sweep)) {
    result["advised"].push_back(method.model->name);
  }
  for (const SweepPoint& point : sweep.points) {
    json methods = json::object();
    for (size_t i = 0; i < request.methods.size(); ++i) {
      methods[request.methods[i].model->name] = {
          {"seconds", point.predictions[i].seconds},
          {"coding_seconds", point.predictions[i].coding_seconds},
          {"wire_seconds", point.predictions[i].wire_seconds},
          {"speed_up", point.speed_up(i)}};
    }
    result["points"].push_back({{"workers", point.workers},
                                {"gbit_per_s", point.bandwidth * 8 / 1e9},
                                {"methods", methods},
                                {"recommended", point.recommended->name}});
  }
  for (size_t row = 0; row < request.workers.size(); ++row) {
    json methods = json::object();
    for (size_t i = 0; i < request.methods.size(); ++i) {
      methods[request.methods[i].model->name] = to_json(sweep.break_even[row][i]);
    }
    result["break_even_gbit_per_s"].push_back(
        {{"workers", request.workers[row]}, {"methods", methods}});
  }
  return result;
}

}  // namespace gradwire::planner
