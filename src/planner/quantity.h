#pragma once

// Rates and times as people write them: "10gbit", "20us".

#include <map>
#include <string>

namespace gradwire::planner {

// A number followed by one of the units. Throws std::invalid_argument saying what is expected.
double parse_quantity(const std::string& text, const std::map<std::string, double>& units,
                      const std::string& expected);

// "10gbit", "250mbit": bits per second, as network links are sold. The result is in bytes per
// second.
double parse_bandwidth(const std::string& text);

// "20us", "0.5ms", "2s"; without a unit it is seconds.
double parse_seconds(const std::string& text);

std::string describe_bandwidth(double bytes_per_second);
std::string describe_seconds(double seconds);  // "210 ms", "1.5 s"

}  // namespace gradwire::planner
