#include "lab/process.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace gradwire::lab {
namespace {

TEST(Programs, AreFoundAsAShellFindsThem) {
  EXPECT_TRUE(find_program("sh"));
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_FALSE(find_program("no-such-program"));
  EXPECT_FALSE(find_program("/no/such/program"));
}

TEST(Programs, ThatAreMissingNameTheirPackage) {
  try {
    run_iproute("no-such-program", {});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("install iproute2"), std::string::npos);
  }
}

TEST(Programs, ThatFailSayWhy) {
  try {
    run_iproute("sh", {"-c", "echo because >&2; exit 3"});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("failed: because"), std::string::npos);
  }
  run_iproute("sh", {"-c", "echo a mere warning >&2"});
}

}  // namespace
}  // namespace gradwire::lab
