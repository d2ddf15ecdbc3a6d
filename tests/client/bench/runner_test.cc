#include "client/bench/runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "tests/client/fake_daemon.h"

namespace ringway::bench {
namespace {

using testing::FakeDaemon;

// Runs the bench in a world of one whose daemon adds `increment` to every byte.
std::vector<SizeResult> RunAlone(unsigned increment, bool in_place, std::uint64_t beside_bytes = 0,
                                 const std::vector<Baseline>& baselines = {}) {
  FakeDaemon::Behaviour behaviour;
  behaviour.increment = increment;
  FakeDaemon daemon(behaviour);
  JoinOptions join;
  join.socket_path = daemon.socket_path();
  join.group = "bench";
  join.wait_world = 1;
  auto session = Session::Join(join);
  EXPECT_TRUE(session.ok()) << session.status().text();
  Options options;
  options.min_bytes = 1024;
  options.max_bytes = 16384;
  options.iterations = 4;
  options.in_flight = 3;
  options.in_place = in_place;
  options.beside_bytes = beside_bytes;
  options.check = true;
  options.baselines = baselines;
  Runner runner(options, session->get(), getpid());
  auto results = runner.Run([](const SizeResult&) {});
  EXPECT_TRUE(results.ok()) << results.status().text();
  return results.ok() ? results.value() : std::vector<SizeResult>();
}

TEST(RunnerTest, RightResultsAreCountedAsRight) {
  for (const bool in_place : {false, true}) {
    const auto results = RunAlone(0, in_place);
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(results[1].bytes, 4096u);
    EXPECT_EQ(results[1].count, 1024u);
    EXPECT_EQ(results[1].world_size, 1u);
    EXPECT_EQ(results[1].wrong, 0u);
    EXPECT_EQ(results[1].wire_bytes, 5u);  // what the fake daemon says of each operation
    EXPECT_EQ(results[1].retries, 12u);
    EXPECT_EQ(results[1].inputs, 12u);
    EXPECT_GT(results[1].time.min_ms, 0.0);
    EXPECT_GT(results[1].daemon.peak_rss_bytes, 0u);
  }
}

TEST(RunnerTest, WrongResultsAreCountedElementByElement) {
  const auto results = RunAlone(1, false);
  ASSERT_EQ(results.size(), 3u);
  // 4 measured iterations and 3 of warmup, 3 operations each.
  EXPECT_EQ(results[0].wrong, 256u * 3 * 7);
}

// Each is a maximum of one u64.
std::ptrdiff_t BarriersWith(Quorum quorum) {
  FakeDaemon daemon({.increment = 0});
  const auto session = Session::Join({.socket_path = daemon.socket_path(), .group = "bench", .wait_world = 1});
  EXPECT_TRUE(session.ok()) << session.status().text();
  Options options;
  options.sizes = {8};
  options.warmup = 0;
  options.iterations = 300;
  options.in_flight = 4;
  options.quorum = quorum;
  EXPECT_TRUE(Runner(options, session->get(), getpid()).Run([](const SizeResult&) {}).ok());
  return std::ranges::count_if(daemon.Look().submits,
                               [](const abi::Submit& submit) { return submit.spec.dtype == DType::kU64; });
}

TEST(RunnerTest, WithAQuorumRanksMeetSoThatNoneIsTooManyOperationsBehind) {
  EXPECT_EQ(BarriersWith(Quorum::All()), 1);
  EXPECT_EQ(BarriersWith(Quorum::Ranks(1)), 1 + 300 * 4 / 512);
}

TEST(RunnerTest, BesideIsMeasuredForEachSizeAndOnlyWhenAskedFor) {
  EXPECT_FALSE(RunAlone(0, false).at(0).beside);
  for (const SizeResult& result : RunAlone(0, false, 1 << 20)) {
    ASSERT_TRUE(result.beside);
    EXPECT_EQ(result.beside->bytes, 1u << 20);
    EXPECT_LE(result.beside->times_ms.size(), 4u);  // the fake daemon ends the large one at any time
    EXPECT_EQ(result.wrong, 0u);
  }
}

TEST(RunnerTest, OtherSystemsAreMeasuredAfterEachSizeAndShownAsTimesAsLong) {
  const auto results =
      RunAlone(0, false, 0,
               {{.name = "other", .command = R"(echo '{"results": [{"time_ms_median": {bytes}}]}' > {json})"},
                {.name = "silent", .command = "true"}});
  ASSERT_EQ(results.size(), 3u);
  for (const SizeResult& result : results) {
    ASSERT_EQ(result.baselines.size(), 1u);
    EXPECT_EQ(result.baselines[0].time_ms_median, static_cast<double>(result.bytes));
  }
  SizeResult result = results[0];
  result.time.median_ms = 512;
  EXPECT_NE(TableRow(result).find("# other: min 0.000, median 1024.000: ringway is 2.00 times as fast"),
            std::string::npos)
      << TableRow(result);
  EXPECT_NE(ToJson({result}, 0).find("\"other\": {"), std::string::npos);
}

TEST(RunnerTest, ASystemThatFailsCostsOnlyItsOwnResults) {
  const auto results =
      RunAlone(0, false, 0,
               {{.name = "broken", .command = "exit 3"},
                {.name = "other", .command = R"(echo '{"results": [{"time_ms_median": 1}]}' > {json})"}});
  ASSERT_EQ(results.size(), 3u);
  for (const SizeResult& result : results) {
    EXPECT_EQ(result.times_ms.size(), 4u);
    ASSERT_EQ(result.baselines.size(), 2u);
    EXPECT_EQ(result.baselines[1].failed, "");
    EXPECT_NE(TableRow(result).find("# broken was not measured: broken failed with status 3"), std::string::npos)
        << TableRow(result);
    EXPECT_NE(ToJson({result}, 0).find(R"("failed": ")"), std::string::npos);
  }
}

TEST(RunnerTest, AWorldThatChangesIsReported) {
  SizeResult result;
  result.world_before = result.world_size = 3;
  EXPECT_EQ(TableRow(result).find("# the world"), std::string::npos);
  result.world_size = 2;
  EXPECT_NE(TableRow(result).find("# the world changed from 3 to 2 peers: "), std::string::npos) << TableRow(result);
}

TEST(RunnerTest, LateInputsAreCounted) {
  SizeResult result;
  result.iterations = 20;
  result.world_before = 3;
  result.world_size = 2;
  result.inputs = 47;  // of three ranks at first, then of two
  EXPECT_EQ(TableRow(result).find("late"), std::string::npos);
  result.inputs_late = 7;
  EXPECT_NE(TableRow(result).find("# late: 7 of 47 inputs, which the operations went on without"), std::string::npos)
      << TableRow(result);
  EXPECT_NE(ToJson({result}, 0).find("\"inputs_late\": 7"), std::string::npos);
}

TEST(RunnerTest, AnAllGatherHasNoReduction) {
  SizeResult result;
  EXPECT_NE(TableRow(result).find("  sum "), std::string::npos);
  result.collective = OpKind::kAllGather;
  EXPECT_NE(TableRow(result).find(" none "), std::string::npos) << TableRow(result);
}

TEST(RunnerTest, BesideIsShownAsTimesTheLoneTime) {
  SizeResult result;
  result.iterations = 20;
  result.time = {.min_ms = 1, .median_ms = 2, .p99_ms = 4};
  EXPECT_NE(ToJson({result}, 0).find("\"beside\": null"), std::string::npos);
  EXPECT_EQ(TableRow(result).find("beside"), std::string::npos);
  result.beside = {
      .bytes = 1 << 28, .times_ms = std::vector<double>(19, 3.0), .time = {.min_ms = 1, .median_ms = 3, .p99_ms = 5}};
  EXPECT_NE(
      TableRow(result).find("beside 268435456 bytes: median 3.000, p99 5.000: 1.50 and 1.25 times as long (19 of 20"),
      std::string::npos)
      << TableRow(result);
  EXPECT_NE(ToJson({result}, 0).find("\"time_ms_p99\": 5.0"), std::string::npos);
  result.beside->times_ms.clear();
  EXPECT_NE(TableRow(result).find("take a larger --beside"), std::string::npos);
}

TEST(RunnerTest, JsonHasTheFieldsThatScriptsRelyOn) {
  SizeResult result;
  result.bytes = 4096;
  result.wrong = 2;
  const std::string json = ToJson({result}, 0);
  for (const char* const field :
       {"\"results\"", "\"bytes\": 4096", "\"count\"", "\"dtype\": \"f32\"", "\"op\": \"sum\"", "\"world_size\"",
        "\"time_ms_min\"", "\"time_ms_median\"", "\"time_ms_p99\"", "\"times_ms\"", "\"began_s\"", "\"algbw_gb_per_s\"",
        "\"busbw_gb_per_s\"", "\"wire_bytes\"", "\"lanes\": null", "\"retransmits\": null", "\"wrong\": 2",
        "\"trainer_cpu_seconds\"", "\"daemon_cpu_seconds\""}) {
    EXPECT_NE(json.find(field), std::string::npos) << field;
  }
}

TEST(RunnerTest, LanesAndWhatTheKernelSentAgainAreShownWhereTheDaemonSays) {
  SizeResult result;
  EXPECT_NE(TableRow(result).find("N/A"), std::string::npos);
  result.lanes = {.lanes = 7, .retransmits = 4711};
  EXPECT_NE(TableRow(result).find("    7    4711 "), std::string::npos) << TableRow(result);
  EXPECT_NE(ToJson({result}, 0).find("\"retransmits\": 4711"), std::string::npos);
}

TEST(RunnerTest, CpuOfTheDaemonIsReportedPerGibThatItSent) {
  SizeResult result;
  result.daemon.cpu_seconds = 3;
  EXPECT_FALSE(DaemonCpuSecondsPerGib(result)) << "it sent nothing";
  result.wire_bytes = 512 << 20;
  result.iterations = 3;
  result.in_flight = 2;
  EXPECT_DOUBLE_EQ(DaemonCpuSecondsPerGib(result).value_or(0), 1.0);
  EXPECT_NE(TableRow(result).find("  1.00 "), std::string::npos) << TableRow(result);
  EXPECT_NE(ToJson({result}, 0).find("\"daemon_cpu_seconds_per_gib\": 1.0"), std::string::npos);
  result.daemon.cpu_seconds = 0;
  EXPECT_NE(ToJson({result}, 0).find("\"daemon_cpu_seconds_per_gib\": null"), std::string::npos);
}

TEST(LaneUsageTest, PairsOfThisMembershipAreSummed) {
  const std::string status = R"({"daemon": {}, "groups": [
    {"self": 4, "pairs": [{"lanes_used": 9, "retransmits": 1000}]},
    {"self": 5, "pairs": [{"lanes_used": 3, "retransmits": 10}, {"lanes_used": 8, "retransmits": 1}]}]})";
  const auto usage = ParseLaneUsage(status, 5);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->lanes, 8u);
  EXPECT_EQ(usage->retransmits, 11u);
  EXPECT_FALSE(ParseLaneUsage(status, 6));
}

TEST(LaneUsageTest, DaemonsThatDoNotSayGiveNothing) {
  for (const char* status : {"", "[]", "{}", R"({"groups": [3]})", R"({"groups": [{"self": 5}]})",
                             R"({"groups": [{"self": 5, "pairs": [1]}]})"}) {
    EXPECT_FALSE(ParseLaneUsage(status, 5)) << status;
  }
  EXPECT_FALSE(LaneUsageOf("/nowhere/at/all.sock", 5));
}

}  // namespace
}  // namespace ringway::bench
