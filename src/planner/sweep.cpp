#include "planner/sweep.h"

#include <algorithm>
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

SweepPoint point_at(const SweepRequest& request, int64_t workers, double bandwidth) {
  const Network network = network_at(request, workers, bandwidth);
  SweepPoint point{.workers = workers, .bandwidth = bandwidth};
  point.allreduce_seconds = simulate(request.profile, network, {}).seconds;
  for (const MethodChoice& method : request.methods) {
    point.predictions.push_back(simulate(request.profile, network, method));
  }
  point.recommended = choose(request.profile, network, request.methods).model;
  return point;
}

double recommended_speed_up(const SweepRequest& request, const SweepPoint& point) {
  for (size_t i = 0; i < request.methods.size(); ++i) {
    if (request.methods[i].model == point.recommended) return point.speed_up(i);
  }
  return 1;
}

// Where one method is the recommended one.
struct Realm {
  double lowest_bandwidth;
  double highest_bandwidth;
  double greatest_speed_up;
};

struct ByLoss {
  bool operator()(const MethodModel* one, const MethodModel* other) const {
    return std::tie(one->loss, one->name) < std::tie(other->loss, other->name);
  }
};
using Realms = std::map<const MethodModel*, Realm, ByLoss>;

Realms realms(const SweepRequest& request, const Sweep& sweep) {
  Realms found;
  for (const SweepPoint& point : sweep.points) {
    const double speed_up = recommended_speed_up(request, point);
    const auto [realm, is_new] =
        found.try_emplace(point.recommended, Realm{point.bandwidth, point.bandwidth, speed_up});
    if (is_new) continue;
    Realm& known = realm->second;
    known.lowest_bandwidth = std::min(known.lowest_bandwidth, point.bandwidth);
    known.highest_bandwidth = std::max(known.highest_bandwidth, point.bandwidth);
    known.greatest_speed_up = std::max(known.greatest_speed_up, speed_up);
  }
  return found;
}

std::string describe(const Realm& realm) {
  const std::string lowest = describe_bandwidth(realm.lowest_bandwidth);
  const std::string highest = describe_bandwidth(realm.highest_bandwidth);
  return "at " + (lowest == highest ? lowest : lowest + " to " + highest);
}

std::string describe_speed_up(const Realm& realm, bool is_one_point) {
  char text[64];
  std::snprintf(text, sizeof text, " (%s%.3g times as fast)", is_one_point ? "" : "up to ",
                realm.greatest_speed_up);
  return text;
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
  Realms found = realms(request, sweep);
  const auto plain = found.extract(&plain_all_reduce());
  const bool is_one_point = sweep.points.size() == 1;
  if (found.empty()) {
    return std::string("Stay with all-reduce: no method is more than 2 % faster") +
           (is_one_point ? "." : " at any of these settings.");
  }
  std::string uses;
  for (const auto& [method, realm] : found) {
    uses += (uses.empty() ? "Use " : ", ") + method->name + " " + describe(realm) +
            describe_speed_up(realm, is_one_point);
  }
  if (plain) uses += ", and stay with all-reduce " + describe(plain.mapped());
  return uses + (depends_on_workers(sweep) ? ", depending on the number of workers." : ".");
}

json to_json(const SweepRequest& request, const Sweep& sweep) {
  json result = {{"model", request.profile.name},
                 {"compute_seconds", request.profile.compute_seconds()},
                 {"gradient_bytes", request.profile.gradient_bytes()},
                 {"buckets", request.profile.buckets.size()},
                 {"latency_seconds", request.network.between_nodes.latency},
                 {"workers_per_node", request.network.workers_per_node},
                 {"points", json::array()},
                 {"break_even_gbit_per_s", json::array()},
                 {"advice", advice(request, sweep)}};
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
