// Several masters on one etcd: one leads, the others stand by, and trainers notice nothing of who does.
#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "master/shell/etcd_store.h"
#include "tests/e2e/checks.h"
#include "tests/e2e/etcd.h"
#include "tests/master/shell/store_user.h"

namespace ringway::e2e {
namespace {

// Longer where all is slower, so that no lease ends by accident.
constexpr int kLeaseS = kSanitized ? 6 : 2;

record::Group GroupOf(const std::string& name, std::uint64_t epoch) {
  record::Group group;
  group.set_name(name);
  group.mutable_current()->set_epoch(epoch);
  group.add_members()->mutable_info()->set_peer_id(7);
  return group;
}

// ---------------------------------------------------------------------------------------------- the store by itself

class EtcdStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasEtcd()) GTEST_SKIP() << "needs etcd: apt-get install etcd-server etcd-client";
    etcd_.emplace(1);
  }
  // Each has a loop of its own, which runs only while its user waits: so one that nobody waits for is paused.
  struct Master {
    asio::io_context io{1};
    std::unique_ptr<StoreUser> user;
  };
  std::unique_ptr<Master> Open(std::int64_t lease_s = kLeaseS, const std::string& password = "",
                               const std::string& user = "root") {
    auto master = std::make_unique<Master>();
    EtcdOptions options = ParseEtcd(etcd_->store()).value();
    if (!password.empty()) options.user = user;
    options.password = password;
    auto store = std::make_unique<EtcdStore>(
        master->io, options,
        ElectionOptions{
            .address = "m" + std::to_string(++masters_) + ":1", .seed = 1000ULL * ++masters_, .lease_s = lease_s});
    master->user = std::make_unique<StoreUser>(std::move(store), [io = &master->io](const auto& condition) {
      return Eventually([&] {
        io->restart();
        io->run_for(std::chrono::milliseconds(20));
        return condition();
      });
    });
    return master;
  }

  std::optional<Etcd> etcd_;
  std::uint64_t masters_ = 0;
};

TEST_F(EtcdStoreTest, EveryTenureHasAHigherTermAndTheGroupsAsTheLastOneLeftThem) {
  for (std::uint32_t term = 1; term <= 3; ++term) {
    const auto master = Open();
    ASSERT_TRUE(master->user->Lead()) << master->user->Check().text();
    EXPECT_EQ(master->user->term(), term);
    ASSERT_EQ(master->user->groups().size(), term == 1 ? 0U : 2U);
    if (term > 1) {
      EXPECT_EQ(master->user->groups()[0].SerializeAsString(), GroupOf("a", term - 1).SerializeAsString());
    }
    record::Group gone;
    gone.set_name("b");
    ASSERT_TRUE(master->user->Write({GroupOf("a", term), GroupOf("b", 2), GroupOf("c", 3)}).ok());
    ASSERT_TRUE(master->user->Write({gone}).ok());
  }
}

TEST_F(EtcdStoreTest, MoreGroupsThanOneTransactionTakesAreWritten) {
  std::vector<record::Group> groups;
  for (int i = 0; i < 300; ++i) groups.push_back(GroupOf("g" + std::to_string(i), 1));
  groups[0].mutable_members(0)->mutable_info()->set_name(std::string(1 << 20, 'x'));
  {
    const auto master = Open();
    ASSERT_TRUE(master->user->Lead());
    const Status written = master->user->Write(groups);
    EXPECT_TRUE(written.ok()) << written.text();
  }
  const auto next = Open();
  ASSERT_TRUE(next->user->Lead());
  EXPECT_EQ(next->user->groups().size(), groups.size());
}

TEST_F(EtcdStoreTest, OneThatIsPausedBeyondItsLeaseIsRefusedByTheFenceWhenItWritesAgain) {
  const auto old = Open(60);  // so that no clock of its own tells it
  ASSERT_TRUE(old->user->Lead());
  ASSERT_TRUE(old->user->Write({GroupOf("a", 1)}).ok());
  const std::string leases = etcd_->Ctl({"lease", "list"});
  const std::string lease = leases.substr(leases.find('\n') + 1, 16);
  etcd_->Ctl({"lease", "revoke", lease});
  const auto next = Open();
  ASSERT_TRUE(next->user->Lead());
  ASSERT_TRUE(next->user->Write({GroupOf("a", 2)}).ok());
  EXPECT_FALSE(old->user->Write({GroupOf("a", 3)}).ok());
  EXPECT_FALSE(old->user->leads());
  const auto standby = [&] { return old->user->deposed().text(); };
  EXPECT_NE(standby().find("leads"), std::string::npos) << standby();
  EXPECT_TRUE(next->user->Write({GroupOf("b", 1)}).ok()) << "the one that leads goes on";
}

TEST_F(EtcdStoreTest, WrongPasswordIsSaidAndTheRightOneLeads) {
  etcd_->Ctl({"user", "add", "root:right"});
  etcd_->Ctl({"auth", "enable"});
  {
    const auto wrong = Open(kLeaseS, "wrong");
    EXPECT_TRUE(Eventually([&] {
      wrong->io.restart();
      wrong->io.run_for(std::chrono::milliseconds(20));
      return wrong->user->Check().text().find("does not take user root") != std::string::npos;
    })) << wrong->user->Check().text();
    EXPECT_FALSE(wrong->user->leads());
  }
  const auto right = Open(kLeaseS, "right");
  EXPECT_TRUE(right->user->Lead()) << right->user->Check().text();
  EXPECT_TRUE(right->user->Write({GroupOf("a", 1)}).ok());
}

// deploy/README.md has them for people, who are asked for each password.
TEST_F(EtcdStoreTest, UserOfTheDocumentedCommandsLeadsAndHasItsPrefixAlone) {
  std::ifstream readme(RINGWAY_SOURCE_DIR "/deploy/README.md");
  std::size_t commands = 0;
  for (std::string line; std::getline(readme, line);) {
    std::istringstream words(line);
    std::vector<std::string> argv{std::istream_iterator<std::string>(words), {}};
    if (argv.empty() || argv[0] != "etcdctl") continue;
    argv.erase(argv.begin());
    if (argv[0] == "user" && argv[1] == "add") argv[2] += ":secret";
    etcd_->Ctl(argv);
    ++commands;
  }
  EXPECT_EQ(commands, 7U);
  const auto master = Open(kLeaseS, "secret", "ringway");
  ASSERT_TRUE(master->user->Lead()) << master->user->Check().text();
  EXPECT_TRUE(master->user->Write({GroupOf("a", 1)}).ok());
  EXPECT_NE(etcd_->Ctl({"get", "--prefix", "/ringway/"}, "ringway:secret"), "");
}

// ---------------------------------------------------------------------------------------------- the programs

class StandbyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasEtcd()) GTEST_SKIP() << "needs etcd: apt-get install etcd-server etcd-client";
    etcd_.emplace(3);
    cluster_.emplace(ClusterOptions{.daemons = 3,
                                    .detect_ms = ClusterOptions::kShortDetectMs,
                                    .master_options = {"--lease-s", std::to_string(kLeaseS)},
                                    .store = etcd_->store(),
                                    .masters = 3});
  }
  std::size_t LeaderOtherThan(std::size_t other) {
    std::optional<std::size_t> leader;
    EXPECT_TRUE(Eventually([&] { return (leader = cluster_->Leader()) && *leader != other; })) << "nobody leads";
    return leader.value_or(0);
  }
  void AwaitDaemons(std::size_t daemons) {
    for (std::size_t i = 0; i < daemons; ++i) {
      EXPECT_TRUE(Eventually([&] { return cluster_->MasterConnected(i); })) << "daemon " << i;
    }
  }
  static constexpr std::size_t kNone = 99;

  std::optional<Etcd> etcd_;
  std::optional<Cluster> cluster_;
};

TEST_F(StandbyTest, KilledLeaderIsSucceededAndNobodyNotices) {
  Sessions ranks = cluster_->JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  const std::uint64_t epoch = ranks[0]->epoch();
  for (int death = 0; death < 2; ++death) {
    const std::size_t leader = LeaderOtherThan(kNone);
    const auto begin = std::chrono::steady_clock::now();
    cluster_->master(leader).Kill();
    ExpectWorks(ranks);
    AwaitDaemons(3);
    const auto took = std::chrono::steady_clock::now() - begin;
    std::printf("the daemons have the next master after %lld ms\n",
                static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
    ExpectWorks(ranks);
    EXPECT_EQ(ranks[0]->epoch(), epoch);
    cluster_->RestartMaster(leader);
  }
  ranks.pop_back();
  EXPECT_EQ(RoundsUntil(ranks, [](const OpResult& result) { return result.world_size == 2; }).world_size, 2U);
}

TEST_F(StandbyTest, LossWhileNobodyLeadsIsRecoveredByTheSuccessor) {
  Sessions ranks = cluster_->JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  cluster_->master(LeaderOtherThan(kNone)).Kill();
  cluster_->daemon(2).Kill();
  ranks.pop_back();
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 2U);
  ExpectWorks(ranks);
}

TEST_F(StandbyTest, LeaderThatWakesUpFindsItselfDeposedAndDecidesNothing) {
  Sessions ranks = cluster_->JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  const std::size_t old = LeaderOtherThan(kNone);
  cluster_->master(old).Freeze();
  AwaitDaemons(3);
  cluster_->daemon(2).Kill();
  ranks.pop_back();
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 2U) << "the next one decides";
  const std::uint64_t epoch = ranks[0]->epoch();
  cluster_->master(old).Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return cluster_->master(old).Err().find(" deposed ") != std::string::npos; }))
      << cluster_->master(old).Err();
  EXPECT_NE(LeaderOtherThan(old), old);
  AwaitDaemons(2);
  ExpectWorks(ranks);
  EXPECT_EQ(ranks[0]->epoch(), epoch);
}

TEST_F(StandbyTest, LeaderThatEndsHandsOver) {
  Sessions ranks = cluster_->JoinWorld(3);
  const std::size_t leader = LeaderOtherThan(kNone);
  cluster_->master(leader).Signal(SIGTERM);
  EXPECT_EQ(cluster_->master(leader).Wait(), 0);
  EXPECT_NE(LeaderOtherThan(leader), leader);
  AwaitDaemons(3);
  ExpectWorks(ranks);
}

TEST_F(StandbyTest, WithoutAQuorumOfEtcdOperationsGoOnAndRecoveriesWait) {
  Sessions ranks = cluster_->JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  const std::size_t before = LeaderOtherThan(kNone);
  for (const std::size_t member : {1, 2}) etcd_->member(member).Kill();
  EXPECT_TRUE(Eventually([&] { return cluster_->master(before).Err().find(" deposed ") != std::string::npos; }));
  ExpectWorks(ranks);
  cluster_->daemon(2).Kill();
  ranks.pop_back();
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  EXPECT_EQ(round.Wait(0, Milliseconds(1000)).status().code(), Code::kTimeout) << "nobody decides";
  for (const std::size_t member : {1, 2}) etcd_->Start(member);
  EXPECT_EQ(round.Check().world_size, 2U);
  ExpectWorks(ranks);
}

TEST_F(StandbyTest, EachMasterSaysWhoLeadsAndOrdersAreTheLeaders) {
  const std::size_t leader = LeaderOtherThan(kNone);
  const std::string& address = cluster_->master_address(leader);
  const std::size_t standby = (leader + 1) % 3;
  EXPECT_TRUE(Eventually([&] {
    const auto status = cluster_->StatusOfMaster(cluster_->master_address(standby));
    return status["master"].value("role", "") == "standby" && status["master"].value("leader", "") == address;
  }));
  EXPECT_EQ(cluster_->MasterStatus()["master"].value("role", ""), "leader") << "of the list it asks the one that leads";
  const Finished asked = RunToEnd({RINGWAY_CTL, "--master", cluster_->master_address(standby), "status"});
  EXPECT_NE(asked.out.find("stands by; " + address + " leads"), std::string::npos) << asked.out << asked.err;
  const Finished one = RunToEnd({RINGWAY_CTL, "--master", cluster_->master_address(standby), "drain", "d0"});
  EXPECT_NE(one.code, 0);
  EXPECT_NE(one.err.find(address), std::string::npos) << one.err;
  const Finished all = RunToEnd({RINGWAY_CTL, "--master", cluster_->master_address(), "drain", "d0"});
  EXPECT_EQ(all.code, 0) << all.err;
}

TEST_F(StandbyTest, CommandsAboutGroupsSayWhoLeadsInsteadOfThatThereAreNone) {
  const std::size_t leader = LeaderOtherThan(kNone);
  const std::string trace = cluster_->directory() / "trace.json";
  const std::vector<std::vector<std::string>> commands = {
      {"why", "g"}, {"trace", "g", "-o", trace}, {"top"}, {"top", "--group", "g"}, {"events"}};
  const auto expect = [&](const std::string& masters, const std::string& what) {
    for (const std::vector<std::string>& command : commands) {
      std::vector<std::string> argv = {RINGWAY_CTL, "--master", masters};
      argv.insert(argv.end(), command.begin(), command.end());
      ExpectRefusal(argv, "ringwayctl", what);
    }
  };
  const std::string& standby = cluster_->master_address((leader + 1) % 3);
  EXPECT_TRUE(Eventually([&] { return cluster_->StatusOfMaster(standby)["master"].value("leader", "") != ""; }));
  expect(standby, "the one at " + cluster_->master_address(leader) + " leads: name it in --master");
  for (const std::size_t member : {1, 2}) etcd_->member(member).Kill();
  EXPECT_TRUE(Eventually([&] { return !cluster_->Leader(); }));
  expect(cluster_->master_address(), "no master leads now");
  const Finished status = RunToEnd({RINGWAY_CTL, "--master", cluster_->master_address(), "status"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_TRUE(status.out.starts_with("this master stands by; ")) << status.out;
  EXPECT_EQ(status.out.find("no groups"), std::string::npos) << status.out;
}

}  // namespace
}  // namespace ringway::e2e
