#include "client/bench/baseline.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace ringway::bench {
namespace {

constexpr BaselineRun kRun{.rank = 1, .world = 4, .bytes = 4096, .iterations = 5, .warmup = 2};

Result<std::optional<BaselineResult>> RunCommand(const std::string& command, int timeout_s = 60) {
  return RunBaseline({.name = "other", .command = command}, kRun, std::chrono::seconds(timeout_s));
}

TEST(BaselineTest, IsANameAndACommand) {
  const auto baseline = ParseBaseline("gloo=X=1 run --json {json}");
  ASSERT_TRUE(baseline);
  EXPECT_EQ(baseline->name, "gloo");
  EXPECT_EQ(baseline->command, "X=1 run --json {json}");
  for (const char* const wrong : {"", "gloo", "=run", "gloo="}) EXPECT_FALSE(ParseBaseline(wrong)) << wrong;
}

TEST(BaselineTest, ItsCommandSaysWhatIsMeasured) {
  EXPECT_EQ(CommandOf({.name = "", .command = "{rank}/{world} {bytes} {iters} {warmup} {json} {json} {other}"}, kRun,
                      "/tmp/{rank}"),
            "1/4 4096 5 2 /tmp/{rank} /tmp/{rank} {other}");
}

TEST(BaselineTest, WhatItWroteIsItsResult) {
  const auto result = RunCommand(
      R"(echo noise; echo '{"results": [{"time_ms_median": 12.5, "time_ms_min": 11, "algorithm": "tree"}]}' > {json})");
  ASSERT_TRUE(result.ok()) << result.status().text();
  ASSERT_TRUE(result.value());
  EXPECT_EQ(result.value()->name, "other");
  EXPECT_EQ(result.value()->algorithm, "tree");
  EXPECT_EQ(result.value()->time_ms_median, 12.5);
  EXPECT_EQ(result.value()->time_ms_min, 11);
}

TEST(BaselineTest, OneThatWritesNothingTookPart) {
  const auto result = RunCommand("true");
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result.value());
}

TEST(BaselineTest, FailuresNameItAndWhatToDo) {
  const struct {
    const char* command;
    const char* text;
  } cases[] = {{"exit 3", "other failed with status 3"},
               {"kill -KILL $$", "other failed with status"},
               {"no_such_program_at_all", "other failed with status 127"},
               {"echo 12 > {json}", "other wrote no results"},
               {"echo '{\"results\": [{\"time_ms_median\": \"fast\"}]}' > {json}", "other wrote no results"}};
  for (const auto& each : cases) {
    const auto result = RunCommand(each.command);
    ASSERT_FALSE(result.ok()) << each.command;
    EXPECT_EQ(result.status().code(), Code::kIo);
    EXPECT_NE(result.status().text().find(each.text), std::string::npos) << result.status().text();
  }
}

TEST(BaselineTest, OneThatHangsIsStopped) {
  const auto result = RunCommand("sleep 1000", 1);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().text().find("took over 1 s"), std::string::npos) << result.status().text();
}

// Its descendants hold a pipe open: it ends when the last of them has. It says that it has started when timeout(1)
// sleeps: a timeout(1) that gets its signal before it knows its child leaves the child behind.
TEST(BaselineTest, ItEndsWithItsBenchmark) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t benchmark = fork();
  if (benchmark == 0) {
    (void)RunCommand("until grep -q '^State:.S' /proc/$PPID/status; do :; done; echo started >&" +
                     std::to_string(ends[1]) + "; sleep 50");
    _exit(0);
  }
  close(ends[1]);
  char started = 0;
  EXPECT_EQ(read(ends[0], &started, 1), 1);
  kill(benchmark, SIGKILL);
  waitpid(benchmark, nullptr, 0);
  char rest[16];
  pollfd more{.fd = ends[0], .events = POLLIN, .revents = 0};
  ssize_t got = 1;
  while (got > 0 && poll(&more, 1, 20'000) == 1) got = read(ends[0], rest, sizeof rest);
  EXPECT_EQ(got, 0) << "something of it still runs";
  close(ends[0]);
}

}  // namespace
}  // namespace ringway::bench
