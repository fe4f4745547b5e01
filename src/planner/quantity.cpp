#include "planner/quantity.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>

namespace gradwire::planner {

double parse_quantity(const std::string& text, const std::map<std::string, double>& units,
                      const std::string& expected) {
  size_t length = 0;
  double number = 0;
  try {
    number = std::stod(text, &length);
  } catch (const std::exception&) {
    length = 0;
  }
  std::string name = text.substr(length);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto unit = units.find(name);
  if (length == 0 || !std::isfinite(number) || number < 0 || unit == units.end()) {
    throw std::invalid_argument("\"" + text + "\" is not " + expected);
  }
  return number * unit->second;
}

double parse_bandwidth(const std::string& text) {
  static const std::map<std::string, double> units = {{"bit", 1 / 8.0},
                                                      {"kbit", 1e3 / 8},
                                                      {"mbit", 1e6 / 8},
                                                      {"gbit", 1e9 / 8},
                                                      {"tbit", 1e12 / 8}};
  const std::string expected = "a bandwidth such as 10gbit or 250mbit";
  const double bandwidth = parse_quantity(text, units, expected);
  if (bandwidth == 0) throw std::invalid_argument("\"" + text + "\" is not " + expected);
  return bandwidth;
}

double parse_seconds(const std::string& text) {
  static const std::map<std::string, double> units = {
      {"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  return parse_quantity(text, units, "a time such as 0.2, 35ms or 20us");
}

std::string describe_bandwidth(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  const auto [scale, unit] = bits >= 0.9995e9 ? std::pair(1e9, "Gb/s") : std::pair(1e6, "Mb/s");
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", bits / scale, unit);
  return text;
}

std::string describe_seconds(double seconds) {
  char text[32];
  if (seconds < 0.9995) {
    std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.3g s", seconds);
  }
  return text;
}

}  // namespace gradwire::planner
