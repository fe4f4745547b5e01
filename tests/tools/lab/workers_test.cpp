#include "lab/workers.h"

#include <gtest/gtest.h>

namespace gradwire::lab {
namespace {

TEST(WorstStatus, IsTheLargest) {
  EXPECT_EQ(worst_status({{3, false}, {0, false}, {1, false}}), 3);
  EXPECT_EQ(worst_status({{0, false}}), 0);
}

TEST(WorstStatus, LeavesOutWorkersThatWereStopped) {
  EXPECT_EQ(worst_status({{3, false}, {143, true}}), 3);
}

std::vector<Ending> run(int count, const std::string& script) {
  block_watched_signals();
  Workers workers(
      {.count = count,
       .command = {"/bin/sh", "-c", script},
       .title = "worker",
       .seconds_after_failure = 0.5,
       .seconds_after_signal = std::nullopt,
       .prepare = [](int number) { setenv("NUMBER", std::to_string(number).c_str(), 1); }});
  return workers.wait();
}

TEST(Workers, PrefixTheLinesOfAllButTheFirst) {
  testing::internal::CaptureStdout();
  run(2, "echo number $NUMBER");
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_EQ(output.size(), std::string("number 0\n[worker1] number 1\n").size()) << output;
  EXPECT_NE(output.find("[worker1] number 1\n"), std::string::npos) << output;
}

TEST(Workers, AreStoppedWhenOneHasFailed) {
  const auto endings =
      run(3, "[ $NUMBER = 1 ] && exit 7; [ $NUMBER = 2 ] && trap '' TERM; sleep 60");
  EXPECT_EQ(endings[0].status, 128 + SIGTERM);
  EXPECT_EQ(endings[1].status, 7);
  EXPECT_EQ(endings[2].status, 128 + SIGKILL);
  EXPECT_TRUE(endings[0].was_stopped && endings[2].was_stopped && !endings[1].was_stopped);
}

TEST(Workers, AreKilledByASecondSignal) {
  const auto endings = run(2, "trap '' INT; while sleep 0.1; do kill -INT $PPID; done");
  for (const Ending& ending : endings) EXPECT_EQ(ending.status, 128 + SIGKILL);
}

TEST(Workers, CannotRunAProgramThatDoesNotExist) {
  block_watched_signals();
  Workers workers({.command = {"/no/such/program"}, .title = "worker", .prepare = [](int) {}});
  EXPECT_EQ(workers.wait()[0].status, 126);
}

}  // namespace
}  // namespace gradwire::lab
