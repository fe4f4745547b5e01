#include "planner/json_object.h"

#include <fstream>
#include <stdexcept>

namespace gradwire::planner {

using nlohmann::json;

JsonObject::JsonObject(const json& value, std::string subject, std::string name)
    : value_(value), subject_(std::move(subject)), name_(std::move(name)) {
  if (value.is_object()) return;
  throw std::invalid_argument("[" + subject_ + "] " + (name_.empty() ? "the file" : name_) +
                              " must be an object");
}

void JsonObject::refuse(const std::string& field, const std::string& what) const {
  throw std::invalid_argument("[" + subject_ + "] " + path(field) + " " + what);
}

std::string JsonObject::path(const std::string& field) const {
  return name_.empty() ? field : name_ + "." + field;
}

const json& JsonObject::at(const std::string& field) const {
  if (!has(field)) refuse(field, "is missing");
  return value_.at(field);
}

JsonObject JsonObject::object(const std::string& field) const {
  return {at(field), subject_, path(field)};
}

double JsonObject::number(const std::string& field) const {
  const json& value = at(field);
  if (!value.is_number()) refuse(field, "must be a number, not " + value.dump());
  return value.get<double>();
}

double JsonObject::number_or(const std::string& field, double otherwise) const {
  return has(field) ? number(field) : otherwise;
}

int64_t JsonObject::integer(const std::string& field) const {
  const json& value = at(field);
  if (!value.is_number_integer()) refuse(field, "must be a whole number, not " + value.dump());
  return value.get<int64_t>();
}

bool JsonObject::flag(const std::string& field) const {
  const json& value = at(field);
  if (!value.is_boolean()) refuse(field, "must be true or false, not " + value.dump());
  return value.get<bool>();
}

std::string JsonObject::text(const std::string& field) const {
  const json& value = at(field);
  if (!value.is_string()) refuse(field, "must be a text, not " + value.dump());
  return value.get<std::string>();
}

const json& JsonObject::list(const std::string& field) const {
  const json& value = at(field);
  if (!value.is_array()) refuse(field, "must be a list");
  return value;
}

std::vector<JsonObject> JsonObject::objects(const std::string& field) const {
  std::vector<JsonObject> objects;
  for (const json& value : list(field)) {
    objects.push_back({value, subject_, path(field) + "[" + std::to_string(objects.size()) + "]"});
  }
  return objects;
}

std::vector<int64_t> JsonObject::integers(const std::string& field) const {
  std::vector<int64_t> values;
  for (const json& value : list(field)) {
    if (!value.is_number_integer() || value < 0) {
      refuse(field, "must hold whole numbers, not " + value.dump());
    }
    values.push_back(value.get<int64_t>());
  }
  return values;
}

std::vector<std::string> JsonObject::texts(const std::string& field) const {
  std::vector<std::string> values;
  for (const json& value : list(field)) {
    if (!value.is_string()) refuse(field, "must hold texts, not " + value.dump());
    values.push_back(value.get<std::string>());
  }
  return values;
}

void JsonObject::allow_only(const std::set<std::string>& fields) const {
  for (const auto& [field, value] : value_.items()) {
    if (!fields.contains(field)) refuse(field, "is not a field there is");
  }
}

void JsonObject::require_format(const std::string& format) const {
  if (text("format") != format) {
    refuse("format", "is \"" + text("format") + "\", not \"" + format + "\"");
  }
}

json read_json(const std::string& file, const std::string& subject) {
  std::ifstream stream(file);
  if (!stream) throw std::invalid_argument("cannot read the " + subject + " " + file);
  try {
    return json::parse(stream);
  } catch (const json::exception& error) {
    throw std::invalid_argument(file + " is not JSON: " + error.what());
  }
}

}  // namespace gradwire::planner
