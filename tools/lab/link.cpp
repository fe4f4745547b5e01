#include "lab/link.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace gradwire::lab {
namespace {

using Unit = std::pair<const char*, double>;

constexpr int64_t kFrameBytes = 1514;           // MTU 1500 and the Ethernet header
constexpr int64_t kLargestSuperPacket = 65536;  // the kernel's own limit for IPv4

// A number and one of the units, in that unit; nothing when the text is anything else.
template <size_t N>
std::optional<double> parse_quantity(const std::string& text, const std::array<Unit, N>& units) {
  const size_t digits = text.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string::npos) return std::nullopt;
  const std::string number = text.substr(0, digits);
  if (std::ranges::count(number, '.') > 1 || number == ".") return std::nullopt;
  for (const auto& [name, value] : units) {
    if (text.substr(digits) == name) return std::stod(number) * value;
  }
  return std::nullopt;
}

std::string microseconds(double seconds) {
  return std::to_string(std::llround(seconds * 1e6)) + "us";
}

std::vector<std::string> token_bucket(int64_t bits_per_second) {
  const Bucket bucket = bucket_for(bits_per_second);
  return {"tbf",
          "rate",
          std::to_string(bits_per_second) + "bit",
          "burst",
          std::to_string(bucket.burst_bytes) + "b",
          "limit",
          std::to_string(bucket.queue_bytes) + "b"};
}

std::vector<std::string> netem(const Link& link) {
  // Packets on their way wait in netem's queue: it must hold all that fit into the delay.
  const double bits_per_second =
      static_cast<double>(link.bits_per_second.value_or(100'000'000'000));
  const double on_the_way = bits_per_second / 8 * link.delay_seconds.value_or(0) / kFrameBytes;
  std::vector<std::string> options = {"netem", "limit",
                                      std::to_string(10'000 + std::llround(on_the_way))};
  if (link.delay_seconds) {
    options.insert(options.end(), {"delay", microseconds(*link.delay_seconds)});
  }
  if (link.loss) options.insert(options.end(), {"loss", std::to_string(*link.loss * 100) + "%"});
  return options;
}

}  // namespace

std::optional<int64_t> parse_rate(const std::string& text) {
  if (text == "unlimited") return std::nullopt;
  static constexpr std::array<Unit, 5> kUnits = {
      {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}}};
  const auto rate = parse_quantity(text, kUnits);
  // Below 8 kbit a single frame takes longer than TCP waits before it sends again.
  if (!rate || *rate < 8e3 || *rate > 1e12) {
    throw std::invalid_argument("'" + text +
                                "' is no rate: write 100mbit, 1gbit (8kbit to 1tbit) or unlimited");
  }
  return std::llround(*rate);
}

double parse_delay(const std::string& text) {
  static constexpr std::array<Unit, 3> kUnits = {{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  const auto delay = parse_quantity(text, kUnits);
  if (!delay || *delay > 60) {
    throw std::invalid_argument("'" + text + "' is no delay: write 200us, 5ms or 1s (at most 60s)");
  }
  return *delay;
}

double parse_loss(const std::string& text) {
  static constexpr std::array<Unit, 1> kUnits = {{{"%", 0.01}}};
  const auto loss = parse_quantity(text, kUnits);
  if (!loss || *loss > 1) throw std::invalid_argument("'" + text + "' is no loss: write 0.1%");
  return *loss;
}

Bucket bucket_for(int64_t bits_per_second) {
  const int64_t bytes_per_second = bits_per_second / 8;
  // The bucket loses tokens whenever it is full and its timer comes late; a millisecond bridges
  // what busy cores make of it. More would give short messages to the workers for free.
  const int64_t burst = std::max(bytes_per_second / 1000, 2 * kFrameBytes + 172);
  return {.burst_bytes = burst,
          // As switches have them: some hundred KB, and 50 ms for fast links.
          .queue_bytes = std::max<int64_t>(256'000, bytes_per_second / 20),
          // TCP hands over many frames as one packet. It must fit into the bucket several times, or
          // the bucket spends its time full and waiting for the next.
          .super_packet_bytes = std::clamp<int64_t>(burst / 4, 2048, kLargestSuperPacket)};
}

std::vector<std::string> offload_options(const Link& link) {
  // A loss is the loss of a frame, not of what TCP happened to hand over at once.
  if (link.loss) return {"gso_max_segs", "1"};
  if (!link.bits_per_second) return {};
  return {"gso_max_size", std::to_string(bucket_for(*link.bits_per_second).super_packet_bytes)};
}

std::vector<std::vector<std::string>> queue_commands(const Link& link, const std::string& interface,
                                                     bool towards_host) {
  std::vector<std::vector<std::string>> commands;
  std::vector<std::string> place = {"root"};
  const auto add = [&](const std::vector<std::string>& queue) {
    std::vector<std::string> command = {"qdisc", "add", "dev", interface};
    command.insert(command.end(), place.begin(), place.end());
    command.insert(command.end(), queue.begin(), queue.end());
    commands.push_back(std::move(command));
  };
  if (towards_host && link.needs_netem()) {
    place = {"root", "handle", "1:"};
    add(netem(link));
    place = {"parent", "1:1"};
  }
  if (link.bits_per_second) add(token_bucket(*link.bits_per_second));
  return commands;
}

}  // namespace gradwire::lab
