#include "lab/host.h"

#include <gtest/gtest.h>

#include <set>

namespace gradwire::lab {
namespace {

TEST(Environment, IsThatOfTorchrun) {
  const auto environment = worker_environment(2, 4, 3);
  EXPECT_EQ(environment.at("RANK"), "2");
  EXPECT_EQ(environment.at("WORLD_SIZE"), "4");
  EXPECT_EQ(environment.at("LOCAL_RANK"), "0");
  EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "1");
  EXPECT_EQ(environment.at("MASTER_ADDR"), host_address(0));
  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(environment.at("GLOO_SOCKET_IFNAME"), kInterface);
}

TEST(Addresses, Differ) {
  std::set<std::string> addresses;
  for (int host = 0; host < kMostHosts; ++host) addresses.insert(host_address(host));
  EXPECT_EQ(addresses.size(), kMostHosts);
  EXPECT_EQ(host_address(kMostHosts - 1), "10.77.0.250");
}

TEST(HostsFile, NamesEveryHost) {
  EXPECT_EQ(hosts_file(2),
            "127.0.0.1 localhost\n::1 localhost\n"
            "10.77.0.1 host0\n::ffff:10.77.0.1 host0.lab\n"
            "10.77.0.2 host1\n::ffff:10.77.0.2 host1.lab\n");
}

TEST(Cores, AreTheHostsOwnWhereThereAreEnough) {
  const std::vector<int> available = {0, 2, 4, 6};
  EXPECT_TRUE(cores_suffice(2, 2, available));
  EXPECT_EQ(cores_of(0, 2, available), (std::vector{0, 2}));
  EXPECT_EQ(cores_of(1, 2, available), (std::vector{4, 6}));
}

TEST(Cores, AreSharedInTurnOtherwise) {
  const std::vector<int> available = {0, 1};
  EXPECT_FALSE(cores_suffice(3, 1, available));
  EXPECT_EQ(cores_of(2, 1, available), std::vector{0});
  EXPECT_EQ(cores_of(1, 8, available), (std::vector{0, 1}));
}

}  // namespace
}  // namespace gradwire::lab
