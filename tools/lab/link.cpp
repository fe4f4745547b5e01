#include "lab/link.h"

#include <algorithm>
#include <cmath>

namespace gradwire::lab {
namespace {

constexpr int64_t kFrameBytes = 1514;           // MTU 1500 and the Ethernet header
constexpr int64_t kLargestSuperPacket = 65536;  // the kernel's own limit for IPv4

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
  // Delayed packets wait in netem's queue, so it must hold all that are sent during the delay.
  const double bits_per_second =
      static_cast<double>(link.bits_per_second.value_or(100'000'000'000));
  const double delayed = bits_per_second / 8 * link.delay_seconds.value_or(0) / kFrameBytes;
  std::vector<std::string> options = {"netem", "limit",
                                      std::to_string(10'000 + std::llround(delayed))};
  if (link.delay_seconds) {
    options.insert(options.end(), {"delay", microseconds(*link.delay_seconds)});
  }
  if (link.loss) options.insert(options.end(), {"loss", std::to_string(*link.loss * 100) + "%"});
  return options;
}

}  // namespace

Bucket bucket_for(int64_t bits_per_second) {
  const int64_t bytes_per_second = bits_per_second / 8;
  // A full bucket loses tokens when its timer comes late, as it does on busy cores. A millisecond's
  // worth makes up for that. With more, short messages would pass without any delay.
  const int64_t burst = std::max(bytes_per_second / 1000, 2 * kFrameBytes + 172);
  return {.burst_bytes = burst,
          // Like the queue of a switch: some hundred KB, or 50 ms of a fast link.
          .queue_bytes = std::max<int64_t>(256'000, bytes_per_second / 20),
          // TCP hands over many frames as one packet. If such a packet did not fit into the bucket
          // several times, the bucket would often be full while it waits for the next.
          .super_packet_bytes = std::clamp<int64_t>(burst / 4, 2048, kLargestSuperPacket)};
}

std::vector<std::string> offload_options(const Link& link) {
  // A loss must hit one frame, not all the frames that TCP hands over at once.
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
