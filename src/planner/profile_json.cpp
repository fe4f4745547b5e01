#include "planner/profile_json.h"

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace gradwire::planner {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "gradwire-profile-1";

[[noreturn]] void refuse(const std::string& field, const std::string& what) {
  throw std::invalid_argument("[profile] " + field + " " + what);
}

// A JSON object and its name in messages.
class Object {
 public:
  Object(const json& value, std::string name) : value_(value), name_(std::move(name)) {
    if (!value.is_object()) refuse(name_.empty() ? "the file" : name_, "must be an object");
  }

  std::string path(const std::string& field) const {
    return name_.empty() ? field : name_ + "." + field;
  }
  bool has(const std::string& field) const { return value_.contains(field); }
  const json& at(const std::string& field) const {
    if (!has(field)) refuse(path(field), "is missing");
    return value_.at(field);
  }
  double number(const std::string& field) const {
    const json& value = at(field);
    if (!value.is_number()) refuse(path(field), "must be a number, not " + value.dump());
    return value.get<double>();
  }
  double number_or(const std::string& field, double otherwise) const {
    return has(field) ? number(field) : otherwise;
  }
  std::string text(const std::string& field) const {
    const json& value = at(field);
    if (!value.is_string()) refuse(path(field), "must be a text, not " + value.dump());
    return value.get<std::string>();
  }
  const json& list(const std::string& field) const {
    const json& value = at(field);
    if (!value.is_array()) refuse(path(field), "must be a list");
    return value;
  }
  template <typename Integer>
  std::vector<Integer> integers(const std::string& field) const {
    std::vector<Integer> values;
    for (const json& value : list(field)) {
      if (!value.is_number_integer() || value < 0) {
        refuse(path(field), "must hold whole numbers, not " + value.dump());
      }
      values.push_back(value.get<Integer>());
    }
    return values;
  }
  // A misspelt field that may be left out would pass unnoticed.
  void allow_only(const std::set<std::string>& fields) const {
    for (const auto& [field, value] : value_.items()) {
      if (!fields.contains(field)) refuse(path(field), "is not a field there is");
    }
  }

 private:
  const json& value_;
  std::string name_;
};

std::string element(const char* list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

json rate_to_json(const CodingRate& rate) {
  return {{"encode", rate.encode},
          {"between", rate.between},
          {"decode", rate.decode},
          {"decode_payload", rate.decode_payload},
          {"per_parameter", rate.per_parameter}};
}

CodingRate rate_from_json(const Object& object) {
  object.allow_only({"encode", "between", "decode", "decode_payload", "per_parameter"});
  return {.encode = object.number("encode"),
          .between = object.number_or("between", 0),
          .decode = object.number("decode"),
          .decode_payload = object.number_or("decode_payload", 0),
          .per_parameter = object.number_or("per_parameter", 0)};
}

CodingRates rates_from_json(const json& value, CodingRates rates) {
  const Object all(value, "rates");
  std::set<std::string> methods;
  for (const Method method : kAllMethods) {
    const std::string name(name_of(method));
    methods.insert(name);
    if (!all.has(name)) continue;
    rates[index_of(method)] = rate_from_json(Object(all.at(name), all.path(name)));
  }
  all.allow_only(methods);
  return rates;
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
  // JSON has no infinity.
  if (std::isfinite(profile.flops_per_second)) {
    result["flops_per_second"] = profile.flops_per_second;
  }
  for (const ParameterShape& parameter : profile.parameters) {
    result["parameters"].push_back({{"name", parameter.name}, {"shape", parameter.shape}});
  }
  for (const Bucket& bucket : profile.buckets) {
    result["buckets"].push_back(
        {{"parameters", bucket.parameters}, {"ready_seconds", bucket.ready_seconds}});
  }
  for (const Method method : kAllMethods) {
    result["rates"][std::string(name_of(method))] = rate_to_json(profile.rates[index_of(method)]);
  }
  return result;
}

Profile profile_from_json(const json& value, const CodingRates& otherwise) {
  const Object object(value, "");
  if (object.text("format") != kFormat) {
    refuse("format", "is \"" + object.text("format") + "\", not \"" + kFormat + "\"");
  }
  object.allow_only({"format", "name", "forward_seconds", "backward_seconds", "contention",
                     "flops_per_second", "parameters", "buckets", "rates"});
  Profile profile;
  profile.name = object.text("name");
  profile.forward_seconds = object.number("forward_seconds");
  profile.backward_seconds = object.number("backward_seconds");
  profile.contention = object.number_or("contention", profile.contention);
  profile.flops_per_second = object.number_or("flops_per_second", profile.flops_per_second);
  for (const json& parameter : object.list("parameters")) {
    const Object fields(parameter, element("parameters", profile.parameters.size()));
    fields.allow_only({"name", "shape"});
    profile.parameters.push_back({fields.text("name"), fields.integers<int64_t>("shape")});
  }
  for (const json& bucket : object.list("buckets")) {
    const Object fields(bucket, element("buckets", profile.buckets.size()));
    fields.allow_only({"parameters", "ready_seconds"});
    profile.buckets.push_back(
        {fields.integers<size_t>("parameters"), fields.number("ready_seconds")});
  }
  profile.rates = object.has("rates") ? rates_from_json(object.at("rates"), otherwise) : otherwise;
  profile.check();
  return profile;
}

Profile read_profile(const std::string& file, const CodingRates& otherwise) {
  std::ifstream stream(file);
  if (!stream) throw std::invalid_argument("cannot read the profile " + file);
  json value;
  try {
    value = json::parse(stream);
  } catch (const json::parse_error& error) {
    throw std::invalid_argument(file + " is not JSON: " + error.what());
  }
  return profile_from_json(value, otherwise);
}

}  // namespace gradwire::planner
