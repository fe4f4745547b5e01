#include "trainer/method_argument.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

#include "gradwire/methods.h"

namespace gradwire::trainer {
namespace {

template <typename Value>
Value parse(const std::string& text) {
  std::istringstream input(text);
  Value value;
  if (!(input >> std::boolalpha >> value) || input.peek() != EOF) {
    throw std::invalid_argument("a value of the wrong type");
  }
  return value;
}

template <>
std::string parse<std::string>(const std::string& text) {
  return text;
}

// Python writes True and False.
template <>
bool parse<bool>(const std::string& text) {
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "true" || lower == "1") return true;
  if (lower == "false" || lower == "0") return false;
  throw std::invalid_argument("a value other than true and false");
}

OptionValue parse_like(const OptionValue& example, const std::string& text) {
  return std::visit(
      [&](const auto& held) -> OptionValue { return parse<std::decay_t<decltype(held)>>(text); },
      example);
}

std::string list_of(const auto& described) {
  std::string names;
  for (const auto& each : described) names += (names.empty() ? "" : ", ") + each.name;
  return names.empty() ? "none" : names;
}

const auto& find(const auto& described, const std::string& name, const std::string& what) {
  const auto found = std::ranges::find(described, name, [](const auto& d) { return d.name; });
  if (found == described.end()) {
    throw std::invalid_argument("--method: there is no " + what + " \"" + name +
                                "\"; there are: " + list_of(described));
  }
  return *found;
}

}  // namespace

Request parse_method(const std::string& text) {
  static const std::vector<MethodDescription> known = methods();
  const size_t colon = text.find(':');
  const MethodDescription& method = find(known, text.substr(0, colon), "method");
  Request request{.method = method.name};
  std::istringstream rest(colon == std::string::npos ? "" : text.substr(colon + 1));
  for (std::string pair; std::getline(rest, pair, ',');) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      throw std::invalid_argument("--method: \"" + pair + "\" is not of the form key=value");
    }
    const std::string key = pair.substr(0, equals);
    const bool of_all_methods = key == "start_after";
    const OptionValue example =
        of_all_methods ? OptionValue(request.start_after)
                       : find(method.options, key, "option of " + method.name).default_value;
    try {
      const OptionValue value = parse_like(example, pair.substr(equals + 1));
      if (of_all_methods) {
        request.start_after = std::get<int64_t>(value);
      } else {
        request.options[key] = value;
      }
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("--method: \"" + pair + "\" has " + error.what());
    }
  }
  return request;
}

std::vector<std::string> split_methods(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream input(text);
  for (std::string item; std::getline(input, item, ',');) {
    const bool goes_on = item.find('=') != std::string::npos &&
                         item.find(':') == std::string::npos && !items.empty();
    if (goes_on) {
      items.back() += "," + item;
    } else if (item == "all") {
      for (const MethodDescription& method : methods()) items.push_back(method.name);
    } else {
      items.push_back(item);
    }
  }
  return items;
}

}  // namespace gradwire::trainer
