#include "gradwire/process_group.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace gradwire {
namespace {

// Sets environment variables for the length of a test.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID",
                             "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}) {
      const char* value = std::getenv(name);
      saved_[name] = value == nullptr ? "" : value;
      unsetenv(name);
    }
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : saved_) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
  }

 private:
  std::map<std::string, std::string> saved_;
};

void expect_refusal(const std::string& reason) {
  try {
    init_process_group();
    FAIL() << "not refused: " << reason;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

TEST(InitProcessGroup, IsAWorldOfOneWithoutALauncher) {
  const Environment environment({});
  const auto group = init_process_group();
  EXPECT_EQ(group->getRank(), 0);
  EXPECT_EQ(group->getSize(), 1);
}

TEST(InitProcessGroup, ReadsTheNamesOfEveryLauncher) {
  for (const auto& [rank, size] :
       std::map<std::string, std::string>{{"RANK", "WORLD_SIZE"},
                                          {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                          {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    const Environment environment({{rank, "5"}, {size, "2"}});
    expect_refusal("worker 5 is not in a world of 2");
  }
}

TEST(InitProcessGroup, SaysWhatIsMissing) {
  const Environment environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  expect_refusal("needs MASTER_ADDR and MASTER_PORT");
}

TEST(InitProcessGroup, RefusesWhatIsNoNumber) {
  const Environment environment({{"RANK", "one"}, {"WORLD_SIZE", "2"}});
  expect_refusal("the environment variable RANK must be a number");
}

}  // namespace
}  // namespace gradwire
