#include "engine/agreement.h"

#include <nlohmann/json.hpp>

#include "comm/handshake.h"

namespace gradwire {
namespace {

using nlohmann::json;

json to_json(const OptionMap& options) {
  json object = json::object();
  for (const auto& option : options) {
    std::visit([&](const auto& held) { object[option.first] = held; }, option.second);
  }
  return object;
}

// What all workers of a group must have in common.
json description_of(const Request& request, const std::vector<Parameter>& parameters) {
  json description = {
      {"version", GRADWIRE_VERSION},
      {"method", request.method},
      {"options", to_json(complete_options(find_method(request.method), request.options))},
      {"start_after", request.start_after},
      {"grad_scaler", static_cast<bool>(request.loss_scale)},
      {"skip", request.skip},
      {"per_parameter", json::array()},
      {"parameters", json::array()}};
  for (const auto& [pattern, options] : request.per_parameter) {
    description["per_parameter"].push_back({{"pattern", pattern}, {"options", to_json(options)}});
  }
  for (const Parameter& parameter : parameters) {
    description["parameters"].push_back({{"name", parameter.name},
                                         {"shape", parameter.tensor.sizes().vec()},
                                         {"dtype", c10::toString(parameter.tensor.scalar_type())}});
  }
  return description;
}

}  // namespace

Routes agree_on_routes(c10d::ProcessGroup& group, const Request& request,
                       const std::vector<Parameter>& parameters) {
  Handshake handshake(group);
  Routes routes;
  try {
    routes = make_routes(request, parameters);
  } catch (const std::exception& error) {
    handshake.fail(error.what());
    throw;
  }
  handshake.agree(description_of(request, parameters), request.handshake_timeout);
  handshake.agree_on_simd_target();
  return routes;
}

}  // namespace gradwire
