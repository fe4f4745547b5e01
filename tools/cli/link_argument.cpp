#include "cli/link_argument.h"

#include <cmath>
#include <stdexcept>

#include "planner/quantity.h"

namespace gradwire {
namespace {

void require(bool holds, const std::string& rule, const std::string& text) {
  if (!holds) throw std::invalid_argument(rule + "; got " + text);
}

}  // namespace

lab::Link parse_link(const std::string& rate, const std::string& delay, const std::string& loss) {
  lab::Link link;
  if (rate != "unlimited") {
    const double bits = 8 * planner::parse_bandwidth(rate);
    // Below 8 kbit/s a single frame takes longer than TCP waits before it sends again.
    require(bits >= 8e3 && bits <= 1e12, "a rate must be from 8kbit to 1tbit, or unlimited", rate);
    link.bits_per_second = std::llround(bits);
  }
  if (!delay.empty()) {
    link.delay_seconds = planner::parse_seconds(delay);
    require(*link.delay_seconds <= 60, "a delay must be at most 60s", delay);
  }
  if (!loss.empty()) {
    link.loss = planner::parse_quantity(loss, {{"%", 0.01}}, "a loss such as 0.1%");
    require(*link.loss <= 1, "a loss must be at most 100%", loss);
  }
  return link;
}

}  // namespace gradwire
