#include "lab/link.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gradwire::lab {
namespace {

using Command = std::vector<std::string>;

TEST(Bucket, HoldsAMillisecondAndAtLeastTwoFrames) {
  EXPECT_EQ(bucket_for(1'000'000'000).burst_bytes, 125'000);
  EXPECT_GE(bucket_for(10'000'000).burst_bytes, 2 * 1514);
}

TEST(Bucket, SuperPacketsFitSeveralTimes) {
  for (const int64_t rate : {100'000'000LL, 1'000'000'000LL, 10'000'000'000LL}) {
    const Bucket bucket = bucket_for(rate);
    EXPECT_LE(4 * bucket.super_packet_bytes, bucket.burst_bytes) << rate;
    EXPECT_GT(bucket.super_packet_bytes, 1514) << rate;
  }
}

TEST(Queues, AreTokenBucketsBothWays) {
  const Link link = {.bits_per_second = 1'000'000'000, .delay_seconds = {}, .loss = {}};
  for (const bool towards_host : {false, true}) {
    const auto commands = queue_commands(link, "lab0", towards_host);
    ASSERT_EQ(commands.size(), 1);
    EXPECT_EQ(commands[0], (Command{"qdisc", "add", "dev", "lab0", "root", "tbf", "rate",
                                    "1000000000bit", "burst", "125000b", "limit", "6250000b"}));
  }
}

TEST(Queues, AreNoneWithoutALimit) {
  EXPECT_TRUE(queue_commands({}, "lab0", true).empty());
  EXPECT_TRUE(offload_options({}).empty());
}

TEST(Queues, DelayEachPacketOnce) {
  const Link link = {.bits_per_second = 100'000'000, .delay_seconds = 5e-3, .loss = 1e-3};
  EXPECT_EQ(queue_commands(link, "lab0", /*towards_host=*/false).size(), 1);
  const auto commands = queue_commands(link, "port0", /*towards_host=*/true);
  ASSERT_EQ(commands.size(), 2);
  EXPECT_EQ(commands[0], (Command{"qdisc", "add", "dev", "port0", "root", "handle", "1:", "netem",
                                  "limit", "10041", "delay", "5000us", "loss", "0.100000%"}));
  EXPECT_NE(std::ranges::find(commands[1], "1:1"), commands[1].end());
}

TEST(Offload, LosesFramesOneByOne) {
  EXPECT_EQ(offload_options({.bits_per_second = {}, .delay_seconds = {}, .loss = 0.1}),
            (Command{"gso_max_segs", "1"}));
}

}  // namespace
}  // namespace gradwire::lab
