// Deaths and restarts of the master: operations go on, what changes the group waits, nobody but the log notices.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>

#include "tests/e2e/checks.h"
#include "tests/e2e/network_namespace.h"
#include "tests/sanitized.h"

namespace ringway::e2e {
namespace {

TEST(Master, DaemonThatDiesDuringTheOutageIsReplacedByTheSurvivorsViewAfterIt) {
  Cluster cluster({.daemons = 3, .detect_ms = ClusterOptions::kShortDetectMs});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  cluster.master().Kill();
  cluster.daemon(2).Kill();
  ranks.pop_back();
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  EXPECT_EQ(round.Wait(0, Milliseconds(20)).status().code(), Code::kTimeout) << "without a master nobody decides";
  cluster.RestartMaster();
  EXPECT_EQ(round.Check().world_size, 2u);
  ExpectWorks(ranks);
}

// It has heard nobody for longer than the detection time, and that is its own fault.
TEST(Master, FrozenMasterEvictsNobodyWhenItWakes) {
  Cluster cluster({.daemons = 3, .detect_ms = ClusterOptions::kShortDetectMs});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectWorks(ranks);
  const std::uint64_t epoch = ranks[0]->epoch();
  cluster.master().Freeze();
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(Eventually([&] { return !cluster.MasterConnected(i); }));
  ExpectWorks(ranks);
  cluster.master().Signal(SIGCONT);
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(Eventually([&] { return cluster.MasterConnected(i); }));
  ExpectWorks(ranks);
  EXPECT_EQ(ranks[0]->epoch(), epoch) << "nobody noticed";
}

// Operations without a break, for so long.
void WorkFor(const Sessions& ranks, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end && !::testing::Test::HasFailure()) ExpectWorks(ranks);
}

// All daemons are in a network of their own, which loses the master's for shorter and far longer than the detection
// time and then, in the middle of a recovery, again.
TEST(Master, BlackHoledMasterIsMissedByNobodyAndDecidesWhenItIsBack) {
  NetworkNamespace island;
  if (!island.error().empty()) GTEST_SKIP() << "needs root and namespaces: " << island.error();
  Cluster cluster({.daemons = 0, .detect_ms = ClusterOptions::kShortDetectMs, .host = island.host_outside()});
  for (int i = 0; i < 4; ++i) cluster.AddDaemonAt({island.host_inside(), island.wrapper()});
  Sessions ranks = cluster.JoinWorld(4);
  ASSERT_EQ(ranks.size(), 4u);
  ExpectWorks(ranks);
  const std::uint64_t epoch = ranks[0]->epoch();
  const auto expect_connected = [&](std::size_t daemons, bool connected) {
    for (std::size_t i = 0; i < daemons; ++i) {
      ASSERT_TRUE(Eventually([&] { return cluster.MasterConnected(i) == connected; })) << "daemon " << i;
    }
  };
  for (const int outage_s : {1, 4, 10}) {
    island.BlackHole();
    WorkFor(ranks, std::chrono::seconds(outage_s));
    expect_connected(4, false);
    island.Restore();
    expect_connected(4, true);
    ExpectWorks(ranks);
    EXPECT_EQ(ranks[0]->epoch(), epoch) << "nobody noticed";
  }
  island.BlackHole();
  cluster.daemon(3).Kill();
  ranks.pop_back();
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  expect_connected(3, false);
  EXPECT_EQ(round.Wait(0, Milliseconds(6000)).status().code(), Code::kTimeout) << "without a master nobody decides";
  island.Restore();
  EXPECT_EQ(round.Check().world_size, 3u);
  ExpectWorks(ranks);
  // Joins go on as if nothing had been.
  const JoinOptions newcomer = cluster.At(cluster.AddDaemonAt({island.host_inside(), island.wrapper()}), "job", 1);
  auto joining = std::async(std::launch::async, [&] { return Session::Join(newcomer); });
  RoundsUntil(ranks, [](const OpResult& result) { return result.update_waits; });
  EXPECT_EQ(UpdateAll(ranks).world_size, 4u);
  auto joined = joining.get();
  ASSERT_TRUE(joined.ok()) << joined.status().text();
  ranks.push_back(std::move(*joined));
  ExpectWorks(ranks);
}

TEST(Master, JoinsWaitForTheMasterToComeBack) {
  Cluster cluster({.daemons = 2});
  const JoinOptions first = cluster.At(0, "job", 2);
  const JoinOptions second = cluster.At(1, "job", 2);
  auto pending = std::async(std::launch::async, [&] { return Session::Join(first); });
  ASSERT_TRUE(Eventually([&] { return !cluster.MasterStatus()["groups"].empty(); })) << "the join has not arrived";
  cluster.master().Kill();
  ASSERT_TRUE(Eventually([&] { return !cluster.MasterConnected(1); }));
  auto late = std::async(std::launch::async, [&] { return Session::Join(second); });
  cluster.RestartMaster();
  Sessions ranks;
  for (auto* join : {&pending, &late}) {
    auto joined = join->get();
    ASSERT_TRUE(joined.ok()) << joined.status().text();
    ranks.push_back(std::move(*joined));
  }
  ExpectWorks(ranks);
}

TEST(Master, TrainerThatLeavesDuringTheOutageIsMissedByNobody) {
  Cluster cluster({.daemons = 2, .detect_ms = 2 * ClusterOptions::kShortDetectMs, .grace_ms = 300});
  Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  cluster.master().Kill();
  ranks.pop_back();
  ASSERT_TRUE(Eventually([&] { return cluster.DaemonStatus(1)["peers"].empty(); }));
  cluster.RestartMaster();
  const OpResult last = RoundsUntil(ranks, [](const OpResult& result) { return result.world_size == 1; });
  EXPECT_EQ(last.world_size, 1u);
}

TEST(Master, SecondOneOnTheSameJournalRefusesToStart) {
  Cluster cluster({.daemons = 1});
  const Finished second =
      RunToEnd({RINGWAY_MASTER, "--listen", "127.0.0.1:0", "--journal", cluster.directory() / "master.db"});
  EXPECT_EQ(second.code, 2);
  EXPECT_NE(second.err.find("in use by another ringway-master"), std::string::npos) << second.err;
  EXPECT_TRUE(cluster.MasterStatus().contains("master"));
}

TEST(Master, OneWithAnotherJournalIsNotFollowed) {
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  cluster.master().Kill();
  {
    const Process stranger(cluster.directory(), "stranger",
                           {RINGWAY_MASTER, "--listen", cluster.master_address(), "--journal", "none"});
    EXPECT_TRUE(Eventually(
        [&] { return cluster.daemon(0).Err().find("does not continue the one of term 1") != std::string::npos; }));
    JoinOptions hasty = cluster.At(0, "other", 1);
    hasty.timeout = Milliseconds(100);
    ExpectJoinFails(hasty, Code::kMasterUnreachable, "stop all daemons, then start them again");
    ExpectWorks(ranks);
  }
  cluster.RestartMaster();
  EXPECT_TRUE(Eventually([&] { return cluster.MasterConnected(0) && cluster.MasterConnected(1); }));
  ExpectWorks(ranks);
}

TEST(Master, LostJournalIsReportedRefusesTheNextStartAndIsReplacedOnRequest) {
  Cluster cluster({.daemons = 1});
  const std::string journal = cluster.directory() / "master.db";
  ASSERT_EQ(std::remove(journal.c_str()), 0);
  EXPECT_TRUE(Eventually([&] { return cluster.MasterStatus()["master"].value("journal", "ok") != "ok"; }));
  EXPECT_NE(cluster.master().Err().find("was deleted"), std::string::npos) << cluster.master().Err();
  cluster.master().Kill();
  std::vector<std::string> arguments{RINGWAY_MASTER, "--listen", "127.0.0.1:0", "--journal", journal};
  const Finished refused = RunToEnd(arguments);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--new-journal"), std::string::npos) << refused.err;
  arguments.emplace_back("--new-journal");
  const Process fresh(cluster.directory(), "fresh", arguments);
  EXPECT_TRUE(Eventually([&] { return fresh.Err().find("journal_new") != std::string::npos; })) << fresh.Err();
}

// A limit on the size of its files stands for a full disk.
TEST(Master, FullDiskStopsChangesAndNothingElse) {
  Cluster cluster({.daemons = 3, .detect_ms = ClusterOptions::kShortDetectMs});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  struct rlimit roomy {};
  const struct rlimit full { 16 << 10, RLIM_INFINITY };  // more than the log, less than the journal
  ASSERT_EQ(::prlimit(cluster.master().pid(), RLIMIT_FSIZE, &full, &roomy), 0);
  ExpectWorks(ranks);
  cluster.daemon(2).Kill();
  ranks.pop_back();
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  EXPECT_TRUE(Eventually([&] { return cluster.MasterStatus()["master"].value("journal", "ok") != "ok"; }));
  EXPECT_NE(cluster.master().Err().find("journal_failed"), std::string::npos) << cluster.master().Err();
  EXPECT_EQ(round.Wait(0, Milliseconds(20)).status().code(), Code::kTimeout) << "nothing may be decided";
  ASSERT_EQ(::prlimit(cluster.master().pid(), RLIMIT_FSIZE, &roomy, nullptr), 0);
  EXPECT_EQ(round.Check().world_size, 2u);
}

}  // namespace
}  // namespace ringway::e2e
