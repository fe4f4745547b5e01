#pragma once

// Reads JSON that people write, and says what is wrong with it in their terms.

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace gradwire::planner {

// A JSON object, what it belongs to ("profile") and its own name therein ("buckets[2]", or nothing
// for the whole). Every message names all three; everything throws std::invalid_argument.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& value, std::string subject, std::string name = "");

  bool has(const std::string& field) const { return value_.contains(field); }
  const nlohmann::json& at(const std::string& field) const;
  JsonObject object(const std::string& field) const;
  double number(const std::string& field) const;
  double number_or(const std::string& field, double otherwise) const;
  int64_t integer(const std::string& field) const;
  bool flag(const std::string& field) const;
  std::string text(const std::string& field) const;
  const nlohmann::json& list(const std::string& field) const;
  std::vector<JsonObject> objects(const std::string& field) const;
  std::vector<int64_t> integers(const std::string& field) const;
  std::vector<std::string> texts(const std::string& field) const;

  // A misspelt field that may be left out would pass unnoticed.
  void allow_only(const std::set<std::string>& fields) const;
  void require_format(const std::string& format) const;
  [[noreturn]] void refuse(const std::string& field, const std::string& what) const;

 private:
  std::string path(const std::string& field) const;

  const nlohmann::json& value_;
  std::string subject_;
  std::string name_;
};

// `subject` as above.
nlohmann::json read_json(const std::string& file, const std::string& subject);

}  // namespace gradwire::planner
