#include "methods/option_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace gradwire {
namespace {

std::string format_number(double value) {
  // The shortest text that stands for this number and no other.
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {std::begin(text), end};
}

// An integer is as good as the number it stands for; nothing else is converted.
OptionValue as_type_of(const OptionValue& wanted, const OptionValue& given) {
  if (std::holds_alternative<double>(wanted) && std::holds_alternative<int64_t>(given)) {
    return static_cast<double>(std::get<int64_t>(given));
  }
  return given;
}

OptionValue parse_value(const std::string& text) {
  if (text == "True" || text == "False") return text == "True";
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    return text.substr(1, text.size() - 2);
  }
  const auto is = [&](auto& number) {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    return read.ec == std::errc() && read.ptr == end;
  };
  int64_t whole = 0;
  if (is(whole)) return whole;
  double number = 0;
  if (is(number)) return number;
  throw std::invalid_argument(text + " is not the value of an option");
}

std::string joined_names(const std::vector<OptionSpec>& specs) {
  std::string names;
  for (const OptionSpec& spec : specs) names += (names.empty() ? "" : ", ") + spec.name;
  return names.empty() ? "none" : names;
}

}  // namespace

std::string to_string(const OptionValue& value) {
  struct Printer {
    std::string operator()(bool flag) const { return flag ? "True" : "False"; }
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return format_number(number); }
    std::string operator()(const std::string& text) const { return '"' + text + '"'; }
  };
  return std::visit(Printer{}, value);
}

OptionMap parse_options(const std::string& text) {
  OptionMap options;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw std::invalid_argument(word + " is not an option");
    options[word.substr(0, equals)] = parse_value(word.substr(equals + 1));
  }
  return options;
}

OptionSpec boolean_option(std::string name, bool default_value) {
  return {std::move(name), default_value, "True or False",
          [](const OptionValue& value) { return std::holds_alternative<bool>(value); }};
}

OptionSpec integer_option(std::string name, int64_t default_value, int64_t least) {
  return {std::move(name), default_value, "an integer >= " + std::to_string(least),
          [least](const OptionValue& value) {
            const auto* number = std::get_if<int64_t>(&value);
            return number != nullptr && *number >= least;
          }};
}

OptionSpec number_option(std::string name, double default_value, double least, double most,
                         bool open_below) {
  const bool bounded = most < std::numeric_limits<double>::infinity();
  std::string rule =
      bounded ? "in " + std::string(open_below ? "(" : "[") + format_number(least) + ", " +
                    format_number(most) + "]"
              : "a finite number " + std::string(open_below ? "> " : ">= ") + format_number(least);
  return {std::move(name), default_value, std::move(rule), [=](const OptionValue& value) {
            const auto* number = std::get_if<double>(&value);
            return number != nullptr && std::isfinite(*number) && *number <= most &&
                   (open_below ? *number > least : *number >= least);
          }};
}

OptionSpec choice_option(std::string name, std::vector<std::string> choices,
                         std::string default_value) {
  std::string rule;
  for (const std::string& choice : choices) rule += (rule.empty() ? "\"" : " or \"") + choice + '"';
  return {std::move(name), std::move(default_value), std::move(rule),
          [choices = std::move(choices)](const OptionValue& value) {
            const auto* text = std::get_if<std::string>(&value);
            return text != nullptr && std::ranges::find(choices, *text) != choices.end();
          }};
}

OptionSpec subset_option(std::string name, std::vector<std::string> choices) {
  std::string all;
  for (const std::string& choice : choices) all += (all.empty() ? "" : "+") + choice;
  return {std::move(name), all, "one or more of " + all,
          [choices = std::move(choices)](const OptionValue& value) {
            if (!std::holds_alternative<std::string>(value)) return false;
            return std::ranges::all_of(subset_of(value), [&](const std::string& part) {
              return std::ranges::find(choices, part) != choices.end();
            });
          }};
}

std::vector<std::string> subset_of(const OptionValue& value) {
  std::vector<std::string> parts = {""};
  for (const char character : std::get<std::string>(value)) {
    if (character == '+') {
      parts.emplace_back();
    } else {
      parts.back() += character;
    }
  }
  return parts;
}

OptionMap complete_options(const std::string& method, const std::vector<OptionSpec>& specs,
                           const OptionMap& given) {
  OptionMap complete;
  for (const OptionSpec& spec : specs) complete[spec.name] = spec.default_value;
  for (const auto& [name, value] : given) {
    const auto spec = std::ranges::find(specs, name, &OptionSpec::name);
    if (spec == specs.end()) {
      throw std::invalid_argument("[" + method + "] has no option \"" + name +
                                  "\"; its options are: " + joined_names(specs));
    }
    const OptionValue converted = as_type_of(spec->default_value, value);
    if (!spec->accepts(converted)) {
      throw std::invalid_argument("[" + method + "] " + name + " must be " + spec->rule + "; got " +
                                  to_string(value));
    }
    complete[name] = converted;
  }
  return complete;
}

}  // namespace gradwire
