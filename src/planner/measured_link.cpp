#include "planner/measured_link.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "planner/json_object.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "gradwire-link-1";

json to_json(const CollectiveFit& fit) {
  return {{"latency_seconds", fit.latency},
          {"gbit_per_s", fit.bandwidth * 8 / 1e9},
          {"residual", fit.residual},
          {"r_squared", fit.r_squared},
          {"spread", fit.spread}};
}

CollectiveFit fit_from_json(const JsonObject& object) {
  object.allow_only({"latency_seconds", "gbit_per_s", "residual", "r_squared", "spread"});
  return {.latency = object.number("latency_seconds"),
          .bandwidth = object.number("gbit_per_s") * 1e9 / 8,
          .residual = object.number_or("residual", 0),
          .r_squared = object.number_or("r_squared", 1),
          .spread = object.number_or("spread", 0)};
}

void require(bool condition, const std::string& otherwise) {
  if (!condition) throw std::invalid_argument("[link] " + otherwise);
}

}  // namespace

Link MeasuredLink::link() const {
  Link link{.latency = 0, .bandwidth = fits[0].bandwidth};
  for (const CollectiveFit& fit : fits) link.latency += fit.latency / kCollectives;
  return link;
}

std::array<Slowness, kCollectives> MeasuredLink::slowness() const {
  const Link common = link();
  std::array<Slowness, kCollectives> result;
  for (size_t i = 0; i < kCollectives; ++i) {
    if (common.latency > 0) result[i].latency = fits[i].latency / common.latency;
    result[i].transfer = common.bandwidth / fits[i].bandwidth;
  }
  return result;
}

void MeasuredLink::check() const {
  require(workers >= 2, "workers must be at least 2; got " + std::to_string(workers));
  for (size_t i = 0; i < kCollectives; ++i) {
    const std::string name(name_of(static_cast<Collective>(i)));
    require(fits[i].latency >= 0, name + ".latency_seconds must not be negative");
    require(fits[i].latency <= 1e6, name + ".latency_seconds must be at most 1e6");
    require(fits[i].bandwidth > 0, name + ".gbit_per_s must be positive");
    const double gbit = fits[i].bandwidth * 8 / 1e9;
    require(gbit >= 1e-8 && gbit <= 1e10, name + ".gbit_per_s must be from 1e-8 to 1e10");
  }
}

json to_json(const MeasuredLink& measured) {
  json result = {{"format", kFormat},
                 {"workers", measured.workers},
                 {"latency_seconds", measured.link().latency},
                 {"gbit_per_s", measured.link().bandwidth * 8 / 1e9}};
  for (size_t i = 0; i < kCollectives; ++i) {
    result[std::string(name_of(static_cast<Collective>(i)))] = to_json(measured.fits[i]);
  }
  return result;
}

MeasuredLink measured_link_from_json(const json& value) {
  const JsonObject object(value, "link");
  object.require_format(kFormat);
  MeasuredLink measured{.workers = object.integer("workers"), .fits = {}};
  for (size_t i = 0; i < kCollectives; ++i) {
    const std::string name(name_of(static_cast<Collective>(i)));
    measured.fits[i] = fit_from_json(object.object(name));
  }
  measured.check();
  return measured;
}

}  // namespace gradwire::planner
