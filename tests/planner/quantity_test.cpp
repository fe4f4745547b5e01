#include "planner/quantity.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace gradwire::planner {
namespace {

TEST(Quantity, ReadsWhatPeopleWrite) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("10gbit"), 1.25e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("2.5Gbit"), 0.3125e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("250mbit"), 31.25e6);
  EXPECT_DOUBLE_EQ(parse_bandwidth("9600bit"), 1200);
  EXPECT_DOUBLE_EQ(parse_seconds("20us"), 20e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("0.2"), 0.2);
  EXPECT_DOUBLE_EQ(parse_seconds("35ms"), 35e-3);
}

TEST(Quantity, RefusesEverythingElse) {
  // tc reads mbps as megabytes, most people as megabits.
  for (const char* text : {"", "gbit", "10", "10 gbit", "-1gbit", "0gbit", "10GB", "nangbit",
                           "100mbps", "1.2.3gbit", ".gbit"}) {
    EXPECT_THROW(parse_bandwidth(text), std::invalid_argument) << text;
  }
  for (const char* text : {"", "us", "-1s", "1min", "inf"}) {
    EXPECT_THROW(parse_seconds(text), std::invalid_argument) << text;
  }
}

TEST(Quantity, SaysBandwidthsInTheirUsualUnits) {
  EXPECT_EQ(describe_bandwidth(1.25e9), "10 Gb/s");
  EXPECT_EQ(describe_bandwidth(1.25e8), "1 Gb/s");
  EXPECT_EQ(describe_bandwidth(31.25e6), "250 Mb/s");
  EXPECT_EQ(describe_bandwidth(4.9e9), "39.2 Gb/s");
}

}  // namespace
}  // namespace gradwire::planner
