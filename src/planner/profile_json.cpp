#include "planner/profile_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/json_object.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "gradwire-profile-1";
constexpr const char* kSubject = "profile";

json rate_to_json(const CodingRate& rate) {
  return {{"encode", rate.encode},
          {"between", rate.between},
          {"decode", rate.decode},
          {"decode_payload", rate.decode_payload},
          {"per_parameter", rate.per_parameter}};
}

CodingRate rate_from_json(const JsonObject& object) {
  object.allow_only({"encode", "between", "decode", "decode_payload", "per_parameter"});
  return {.encode = object.number("encode"),
          .between = object.number_or("between", 0),
          .decode = object.number("decode"),
          .decode_payload = object.number_or("decode_payload", 0),
          .per_parameter = object.number_or("per_parameter", 0)};
}

CodingRates rates_from_json(const JsonObject& all, const MethodModels& models, CodingRates rates) {
  std::set<std::string> methods;
  for (const MethodModel* model : models) {
    methods.insert(model->name);
    if (all.has(model->name)) rates[model->name] = rate_from_json(all.object(model->name));
  }
  all.allow_only(methods);
  return rates;
}

json measured_to_json(const Measured& measured) {
  json result = {{"method", measured.choice.model->name},
                 {"workers", measured.workers},
                 {"steps", measured.steps}};
  for (const auto& [name, value] : measured.choice.options) {
    std::visit([&, &field = result[name]](const auto& held) { field = held; }, value);
  }
  return result;
}

// Other methods' options are no mistake and mean nothing.
Measured measured_from_json(const JsonObject& object, const MethodModels& models) {
  Measured measured;
  measured.choice.model = &method_named(models, object.text("method"));
  std::set<std::string> fields = {"method", "workers", "steps"};
  for (const MethodModel* model : models) {
    for (const ModelOption& option : model->options) fields.insert(option.name);
  }
  object.allow_only(fields);
  measured.choice.options = options_from_json(object, measured.choice.model->options);
  measured.workers = object.integer("workers");
  if (object.has("steps")) measured.steps = object.integer("steps");
  return measured;
}

ParameterShape parameter_from_json(const JsonObject& object) {
  object.allow_only({"name", "shape", "kind"});
  ParameterShape parameter{object.text("name"), object.integers("shape")};
  if (object.has("kind") && object.text("kind") != parameter.kind()) {
    object.refuse("kind", "is \"" + object.text("kind") + "\", but the shape is that of \"" +
                              std::string(parameter.kind()) + "\"");
  }
  return parameter;
}

json bucket_to_json(const Bucket& bucket, bool is_measured) {
  json result = {{"parameters", bucket.parameters}, {"ready_seconds", bucket.ready_seconds}};
  if (!is_measured) return result;
  result["encode_seconds"] = bucket.measured.encode;
  result["between_seconds"] = bucket.measured.between;
  result["decode_seconds"] = bucket.measured.decode;
  if (bucket.gathered_bytes > 0) result["gathered_bytes"] = bucket.gathered_bytes;
  return result;
}

Bucket bucket_from_json(const JsonObject& object, bool is_measured) {
  std::set<std::string> fields = {"parameters", "ready_seconds"};
  if (is_measured) {
    fields.merge(std::set<std::string>{"encode_seconds", "between_seconds", "decode_seconds",
                                       "gathered_bytes"});
  }
  object.allow_only(fields);
  Bucket bucket;
  bucket.ready_seconds = object.number("ready_seconds");
  for (const int64_t index : object.integers("parameters")) {
    bucket.parameters.push_back(static_cast<size_t>(index));
  }
  if (is_measured) {
    bucket.measured = {.encode = object.number("encode_seconds"),
                       .between = object.number_or("between_seconds", 0),
                       .decode = object.number("decode_seconds")};
    bucket.gathered_bytes = object.number_or("gathered_bytes", 0);
  }
  return bucket;
}

}  // namespace

json to_json(const Profile& profile) {
  json result = {{"format", kFormat},
                 {"name", profile.name},
                 {"forward_seconds", profile.forward_seconds},
                 {"backward_seconds", profile.backward_seconds},
                 {"contention", profile.contention},
                 {"parameters", json::array()},
                 {"buckets", json::array()},
                 {"rates", json::object()}};
  for (const auto& [method, rate] : profile.rates) {
    result["rates"][method] = rate_to_json(rate);
  }
  // JSON has no infinity.
  if (std::isfinite(profile.flops_per_second)) {
    result["flops_per_second"] = profile.flops_per_second;
  }
  if (!profile.device.empty()) result["device"] = profile.device;
  for (const ParameterShape& parameter : profile.parameters) {
    result["parameters"].push_back(
        {{"name", parameter.name}, {"shape", parameter.shape}, {"kind", parameter.kind()}});
  }
  for (const Bucket& bucket : profile.buckets) {
    result["buckets"].push_back(bucket_to_json(bucket, profile.measured.has_value()));
  }
  if (profile.measured) result["measured"] = measured_to_json(*profile.measured);
  return result;
}

OptionMap options_from_json(const JsonObject& object, const std::vector<ModelOption>& options) {
  OptionMap given;
  for (const ModelOption& option : options) {
    if (!object.has(option.name)) continue;
    given[option.name] = option.is_whole() ? OptionValue(object.integer(option.name))
                                           : OptionValue(object.number(option.name));
  }
  return given;
}

std::vector<ParameterShape> parameters_from_json(const json& value) {
  const std::string subject = "parameters";
  if (!value.is_array()) {
    throw std::invalid_argument("[" + subject +
                                R"(] must be a list of {"name": "fc.weight", "shape": [10, 20]})");
  }
  std::vector<ParameterShape> parameters;
  std::set<std::string> names;
  for (const json& each : value) {
    const JsonObject object(each, subject, subject + "[" + std::to_string(parameters.size()) + "]");
    parameters.push_back(parameter_from_json(object));
    const std::string& name = parameters.back().name;
    if (!names.insert(name).second) object.refuse("name", "is \"" + name + "\" once more");
  }
  check(parameters, subject);
  return parameters;
}

Profile profile_from_json(const json& value, const MethodModels& models,
                          const CodingRates& otherwise) {
  const JsonObject object(value, kSubject);
  object.require_format(kFormat);
  object.allow_only({"format", "name", "device", "forward_seconds", "backward_seconds",
                     "contention", "flops_per_second", "parameters", "buckets", "rates",
                     "measured"});
  Profile profile;
  profile.name = object.text("name");
  if (object.has("device")) profile.device = object.text("device");
  profile.forward_seconds = object.number("forward_seconds");
  profile.backward_seconds = object.number("backward_seconds");
  profile.contention = object.number_or("contention", profile.contention);
  profile.flops_per_second = object.number_or("flops_per_second", profile.flops_per_second);
  if (object.has("measured")) {
    profile.measured = measured_from_json(object.object("measured"), models);
  }
  for (const JsonObject& parameter : object.objects("parameters")) {
    profile.parameters.push_back(parameter_from_json(parameter));
  }
  for (const JsonObject& bucket : object.objects("buckets")) {
    profile.buckets.push_back(bucket_from_json(bucket, profile.measured.has_value()));
  }
  profile.rates =
      object.has("rates") ? rates_from_json(object.object("rates"), models, otherwise) : otherwise;
  profile.check();
  return profile;
}

}  // namespace gradwire::planner
