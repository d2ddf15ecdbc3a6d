// The eight ways in which the best system before this one fails, each as a test of the real programs: what it did then
// stands above each, what has to happen is the name.
#include <gtest/gtest.h>
#include <ringway/ringway.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/behind_relay.h"
#include "tests/e2e/checks.h"
#include "tests/e2e/closed_port.h"
#include "tests/e2e/network_namespace.h"

namespace ringway::e2e {
namespace {

// 1. The survivors blocked for a quarter of an hour: a sender inside a blocking send does not look for the abort.
// Several large operations are in the air, so senders stand before full sockets when their bytes stop to arrive.
TEST(EightWays, BlackHoledPeerIsEvictedAndTheSurvivorsFinish) {
  NetworkNamespace island;
  if (!island.error().empty()) GTEST_SKIP() << "needs root and namespaces: " << island.error();
  Cluster cluster({.daemons = 2, .detect_ms = 2 * ClusterOptions::kShortDetectMs, .host = island.host_outside()});
  cluster.AddDaemonAt({island.host_inside(), island.wrapper()});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectWorks(ranks);
  Struck struck(ranks, 2, {.rounds = 8});
  struck.Submit();
  island.BlackHole();
  struck.CheckSurvivors();
  island.Restore();
  struck.CheckVictim({Code::kEvicted});
  ExpectWorks(Without(std::move(ranks), 2));
}

// 2. Everybody stalled for as long as the peer was frozen.
TEST(EightWays, FrozenPeerIsEvictedWithinTheConfiguredTime) {
  Cluster cluster({.daemons = 3, .detect_ms = 2 * ClusterOptions::kShortDetectMs});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectWorks(ranks);
  cluster.daemon(2).Freeze();
  Struck struck(ranks, 2);
  struck.Submit();
  Round later(std::vector{ranks[0].get(), ranks[1].get()}, {.reduction = {}, .number = 50});
  later.Submit();
  EXPECT_EQ(later.Check().world_size, 2u) << "decided while the victim sleeps";
  struck.CheckSurvivors();
  cluster.daemon(2).Signal(SIGCONT);
  struck.CheckVictim({Code::kEvicted});
  const Session& victim = *ranks[2];
  EXPECT_TRUE(Eventually([&] {
    return ranks[2]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).status().code() == Code::kEvicted;
  })) << victim.peer_id();
  ExpectWorks(Without(std::move(ranks), 2));
}

// 3. Both groups deadlocked for ever.
TEST(EightWays, DeathInOneGroupIsNotNoticedByTheOther) {
  Cluster cluster({.daemons = 4});
  Sessions struck_group = cluster.JoinWorld(4, "struck");
  const Sessions other_group = cluster.JoinWorld(3, "other");
  ASSERT_EQ(struck_group.size(), 4u);
  ASSERT_EQ(other_group.size(), 3u);
  std::atomic<bool> stop = false;
  std::atomic<int> rounds = 0;
  std::thread other([&] {
    for (std::uint64_t number = 0; !stop; ++number, ++rounds) {
      Round round(other_group, {.reduction = {}, .count = number % 2 == 0 ? 200'000u : 100u, .number = number});
      round.Submit();
      const OpResult result = round.Check();
      EXPECT_EQ(result.retries, 0u);
      EXPECT_EQ(result.world_size, 3u);
    }
  });
  EXPECT_TRUE(Eventually([&] { return rounds > 5; }));
  Struck struck(struck_group, 3);
  struck.Submit();
  cluster.daemon(3).Kill();
  struck.CheckSurvivors();
  struck.CheckVictim({Code::kDaemonLost});
  const int before = rounds;
  EXPECT_TRUE(Eventually([&] { return rounds > before + 5; }));
  stop = true;
  other.join();
  ExpectWorks(Without(std::move(struck_group), 3));
}

// 4. The healthy peers were thrown out.
TEST(EightWays, NewcomerThatNobodyCanReachLearnsWhyAndStaysOutside) {
  Cluster cluster({.daemons = 0});
  const std::unique_ptr<Relay> relays[] = {AddDaemonBehindRelay(cluster), AddDaemonBehindRelay(cluster)};
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  for (const auto& relay : relays) relay->BlackHole({.from = 3});  // nor does it reach them
  const ClosedPort closed;
  const std::size_t unreachable = cluster.AddDaemon({"--advertise", closed.address()});
  JoinOptions options = cluster.At(unreachable, "job", 1);
  options.timeout = std::chrono::seconds(5);
  auto joining = std::async(std::launch::async, [options] { return Session::Join(options); });
  std::uint64_t number = 0;
  EXPECT_TRUE(Eventually([&] {
    Round round(ranks, {.reduction = {}, .count = 200'000, .number = number++});
    round.Submit();
    const OpResult result = round.Check();
    EXPECT_EQ(result.retries, 0u);
    EXPECT_EQ(result.world_size, 2u);
    EXPECT_FALSE(result.update_waits);
    return HasFailure() || joining.wait_for(Milliseconds(0)) == std::future_status::ready;
  }));
  const auto joined = joining.get();
  EXPECT_FALSE(joined.ok());
  const std::string text = joined.status().text();
  EXPECT_NE(text.find("cannot reach"), std::string::npos) << text;
  EXPECT_NE(text.find(closed.address()), std::string::npos) << text;
  ExpectWorks(ranks);
}

// 5. Success was reported to all, with most of the tensors untouched.
TEST(EightWays, EveryOperationInFlightHasItsOwnExactOutcomeAfterADeath) {
  Cluster cluster({.daemons = 4});
  Sessions ranks = cluster.JoinWorld(4);
  ASSERT_EQ(ranks.size(), 4u);
  Struck struck(ranks, 1, {.rounds = 12, .channels = 3});
  struck.Submit();
  cluster.daemon(1).Kill();
  struck.CheckSurvivors();
  struck.CheckVictim({Code::kDaemonLost});
  ExpectWorks(Without(std::move(ranks), 1));
}

// 6. Nobody noticed, and the bytes were wrong.
TEST(EightWays, DifferentCountsOrDtypesGiveEveryRankATypedErrorThatNamesBoth) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectMismatch(ranks, {.reduction = {}, .count = 100}, {.reduction = {}, .count = 101}, "100 f32", "101 f32");
  ExpectMismatch(ranks, {.reduction = {}, .count = 1'000'000}, {.reduction = {}, .count = 3}, "1000000 f32", "3 f32");
  ExpectMismatch(ranks, {.reduction = {}, .count = 0}, {.reduction = {}, .count = 3}, "0 f32", "3 f32");
  ExpectMismatch(ranks, {.reduction = {DType::kF32, ReduceOp::kSum, Codec::kNone}, .count = 500},
                 {.reduction = {DType::kI32, ReduceOp::kSum, Codec::kNone}, .count = 500}, "f32", "i32");
}

// 7. Half floats ended the process, or were silently not reduced.

// Calls `check` with each of the reductions that exist on paper.
void ForEachReduction(const std::function<void(const bench::Reduction&)>& check) {
  for (std::uint8_t dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (std::uint8_t op = 0; op < kReduceOpCount; ++op) {
      check({static_cast<DType>(dtype), static_cast<ReduceOp>(op), Codec::kNone});
    }
  }
}

constexpr int kRefused = 8;  // the averages of integers
constexpr int kWorking = kDTypeCount * kReduceOpCount - kRefused;

TEST(EightWays, EveryDtypeWorksOrIsRefusedByName) {
  Cluster cluster({.daemons = 4});
  const Sessions ranks = cluster.JoinWorld(4);
  ASSERT_EQ(ranks.size(), 4u);
  int working = 0;
  std::uint64_t number = 0;
  ForEachReduction([&](const bench::Reduction& reduction) {
    if (!IsSupported(reduction.dtype, reduction.op, reduction.codec)) {
      std::uint64_t value = 1;
      const Outcome refused = ranks[0]->AllReduce(&value, &value, 1, reduction.dtype, reduction.op);
      EXPECT_EQ(refused.status().code(), Code::kNotSupported);
      EXPECT_NE(refused.status().text().find("avg of integers"), std::string::npos) << refused.status().text();
      return;
    }
    ++working;
    for (const std::size_t count : {0, 1, 257}) {
      Round round(ranks, {.reduction = reduction, .count = count, .number = number++});
      round.Submit();
      const OpResult result = round.Check();
      EXPECT_EQ(result.world_size, 4u);
      EXPECT_EQ(result.retries, 0u);
    }
  });
  EXPECT_EQ(working, kWorking);
  ExpectWorks(ranks);
}

// A trainer that uses the C API.
class CTrainer {
 public:
  explicit CTrainer(const std::string& socket) : socket_(socket) {
    config_.socketPath = socket_.c_str();
    config_.group = "c";
    config_.waitWorld = 2;
    join_ = std::async(std::launch::async, [this] { return ringwayCommInit(&comm_, &config_); });
  }
  ~CTrainer() { ringwayCommDestroy(comm_); }
  CTrainer(const CTrainer&) = delete;
  CTrainer& operator=(const CTrainer&) = delete;

  ringwayResult_t AwaitJoin() { return join_.get(); }

  ringwayResult_t Submit(const bench::Reduction& reduction) {
    std::uint64_t peer = 0;
    EXPECT_EQ(ringwayCommPeerId(comm_, &peer), ringwaySuccess);
    bench::FillInput(reduction, {peer, 0}, values_.data(), kCount);
    return ringwayAllReduceAsync(values_.data(), values_.data(), kCount,
                                 static_cast<ringwayDataType_t>(reduction.dtype),
                                 static_cast<ringwayRedOp_t>(reduction.op), comm_, &work_);
  }

  void Check(const bench::Reduction& reduction) {
    ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
    EXPECT_EQ(ringwayWorkWait(work_, Milliseconds(kPatience).count(), &info), ringwaySuccess);
    EXPECT_EQ(info.worldSize, 2u);
    const std::vector<std::uint64_t> contributors(info.contributors, info.contributors + info.worldSize);
    EXPECT_EQ(bench::CountWrong(reduction, contributors, 0, values_.data(), kCount), 0u)
        << NameOf(reduction.dtype) << " " << NameOf(reduction.op);
    ringwayWorkFree(work_);
  }

 private:
  static constexpr std::size_t kCount = 257;

  std::string socket_;
  ringwayConfig_t config_ = RINGWAY_CONFIG_INITIALIZER;
  ringwayComm_t comm_ = nullptr;
  ringwayWork_t work_ = nullptr;
  std::future<ringwayResult_t> join_;
  std::vector<double> values_ = std::vector<double>(kCount);  // room for the largest type, aligned for all
};

TEST(EightWays, EveryDtypeOfTheCApiWorksOrIsRefusedByName) {
  Cluster cluster({.daemons = 2});
  CTrainer one(cluster.socket(0));
  CTrainer other(cluster.socket(1));
  ASSERT_EQ(one.AwaitJoin(), ringwaySuccess);
  ASSERT_EQ(other.AwaitJoin(), ringwaySuccess);
  int working = 0;
  ForEachReduction([&](const bench::Reduction& reduction) {
    const ringwayResult_t submitted = one.Submit(reduction);
    EXPECT_EQ(submitted, other.Submit(reduction));
    if (submitted == ringwayNotSupported) {
      EXPECT_NE(std::string(ringwayGetLastError(nullptr)).find("avg of integers"), std::string::npos);
      return;
    }
    ASSERT_EQ(submitted, ringwaySuccess) << NameOf(reduction.dtype) << " " << NameOf(reduction.op);
    ++working;
    one.Check(reduction);
    other.Check(reduction);
  });
  EXPECT_EQ(working, kWorking);
}

// 8. It ended the run.
TEST(EightWays, MasterRestartIsNoticedByNobodyButTheLog) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  Round before(ranks, {.reduction = {}, .count = kLargeCount});
  before.Submit();
  cluster.master().Kill();
  EXPECT_EQ(before.Check().retries, 0u);
  Round between(ranks, {.reduction = {}, .count = kLargeCount, .number = 1});
  between.Submit();
  const OpResult old = between.Check();
  cluster.RestartMaster();
  Round after(ranks, {.reduction = {}, .count = kLargeCount, .number = 2});
  after.Submit();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(Eventually([&] { return cluster.MasterConnected(i); }));
  const OpResult result = after.Check();
  EXPECT_EQ(result.retries, 0u);
  EXPECT_EQ(result.epoch, old.epoch);
  const auto status = cluster.MasterStatus();
  EXPECT_EQ(status["master"]["term"], 2) << status.dump(1);
  EXPECT_EQ(status["groups"][0]["peers"].size(), 3u) << status.dump(1);
  EXPECT_EQ(status["groups"][0]["epoch"], "1.1") << status.dump(1);
}

}  // namespace
}  // namespace ringway::e2e
