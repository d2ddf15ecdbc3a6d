// Networks that break while the processes live: resets, corrupted bytes, black holes, through relays before the
// daemons.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/behind_relay.h"
#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

// Daemons that reach each other through relays only, one before each; a trainer at each.
class Faults : public testing::Test {
 protected:
  void Start(std::uint32_t world) {
    for (std::uint32_t i = 0; i < world; ++i) relays_.push_back(AddDaemonBehindRelay(cluster_));
    ranks_ = cluster_.JoinWorld(world);
    ASSERT_EQ(ranks_.size(), world);
    ExpectWorks(world);
  }

  std::uint64_t peer(std::size_t index) const { return ranks_[index]->peer_id(); }
  Flow Between(std::size_t from, std::size_t to, Links links = Links::kAll) const {
    return {peer(from), peer(to), links};
  }
  void Everywhere(const std::function<void(Relay&)>& change) const {
    for (const auto& relay : relays_) change(*relay);
  }
  std::size_t CutEverywhere(const Flow& flow) const {
    std::size_t cut = 0;
    Everywhere([&](Relay& relay) { cut += relay.Cut(flow); });
    return cut;
  }

  void ExpectWorks(std::size_t world) {
    Round round(ranks_, {.reduction = {}, .count = 10'000, .number = 99});
    round.Submit();
    const OpResult result = round.Check();
    EXPECT_EQ(result.world_size, world);
    EXPECT_EQ(result.retries, 0u);
  }

  // Runs a large operation that the last rank submits only after an eviction, so that it cannot complete before.
  // Expects that the others evicted exactly one of `suspects`, and have the right bytes without it, now and later.
  void ExpectEvicted(const std::vector<std::size_t>& suspects, const std::function<void()>& fault) {
    Round round(ranks_, {.reduction = {}, .count = kLargeCount});
    const std::size_t last = ranks_.size() - 1;
    for (std::size_t i = 0; i < last; ++i) round.SubmitOn(i);
    fault();
    EXPECT_TRUE(Eventually([&] {
      return std::any_of(suspects.begin(), suspects.end(), [&](std::size_t one) { return round.work(one).Test(); });
    }));
    round.SubmitOn(last);
    std::vector<std::size_t> evicted;
    for (const std::size_t suspect : suspects) {
      const Outcome outcome = round.Wait(suspect, kPatience);
      if (outcome.ok()) continue;
      EXPECT_EQ(outcome.status().code(), Code::kEvicted) << outcome.status().text();
      evicted.push_back(suspect);
      round.work(suspect) = Work();
    }
    ASSERT_EQ(evicted.size(), 1u);
    const OpResult result = round.Check();
    EXPECT_EQ(result.world_size, ranks_.size() - 1);
    EXPECT_EQ(std::count(result.contributors.begin(), result.contributors.end(), peer(evicted[0])), 0);
    ranks_.erase(ranks_.begin() + static_cast<std::ptrdiff_t>(evicted[0]));
    ExpectWorks(ranks_.size());
  }

  Cluster cluster_{{.daemons = 0}};
  std::vector<std::unique_ptr<Relay>> relays_;
  Sessions ranks_;
};

// One rank submits last: until then the operation runs, and cannot have ended.
TEST_F(Faults, LaneResetInMidOperationCostsNoRetry) {
  Start(3);
  Round round(ranks_, {.reduction = {}, .count = kLargeCount});
  round.SubmitOn(0);
  round.SubmitOn(1);
  EXPECT_GT(CutEverywhere(Between(0, 1, Links::kLanes)), 0u);
  round.SubmitOn(2);
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, 3u);
  EXPECT_EQ(result.retries, 0u);
  ExpectWorks(3);
}

// Both ends live, and dial each other anew.
TEST_F(Faults, AllLinksOfAPairResetInMidOperationDisturbNobody) {
  Start(4);
  Round round(ranks_, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  EXPECT_GT(CutEverywhere(Between(1, 2)), 0u);
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, 4u);
  EXPECT_EQ(result.retries, 0u);
  ExpectWorks(4);
}

TEST_F(Faults, CorruptedLaneByteChangesNoResult) {
  Start(3);
  for (const std::size_t from : {0, 1, 2}) {
    const Flow flow{.from = peer(from), .to = 0, .links = Links::kLanes};
    Everywhere([&](Relay& relay) { relay.Corrupt(flow, 100'000); });
    Round round(ranks_, {.reduction = {}, .count = kLargeCount, .number = from});
    round.Submit();
    EXPECT_EQ(round.Check().world_size, 3u);
    Everywhere([](Relay& relay) { relay.Restore(); });
  }
  std::uint64_t corrupted = 0;
  Everywhere([&](Relay& relay) { corrupted += relay.CorruptedBytes(); });
  EXPECT_GE(corrupted, 3u);
  ExpectWorks(3);
}

TEST_F(Faults, PeerThatIsHeardByNobodyIsEvicted) {
  Start(4);
  ExpectEvicted({2}, [this] { Everywhere([this](Relay& relay) { relay.BlackHole({.from = peer(2)}); }); });
}

TEST_F(Faults, PairInABlackHoleOneWayLosesOneOfTheTwo) {
  Start(4);
  ExpectEvicted({0, 2}, [this] { Everywhere([this](Relay& relay) { relay.BlackHole(Between(0, 2)); }); });
}

TEST_F(Faults, DelayShorterThanDetectionEvictsNobody) {
  Start(3);
  Everywhere([](Relay& relay) { relay.Delay({}, std::chrono::milliseconds(20)); });
  Round round(ranks_, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, 3u);
  EXPECT_EQ(result.retries, 0u);
}

// It accuses all the others, and nobody accuses it.
TEST_F(Faults, PeerThatHearsNobodyIsEvicted) {
  Start(4);
  ExpectEvicted({2}, [this] { Everywhere([this](Relay& relay) { relay.BlackHole({.to = peer(2)}); }); });
}

}  // namespace
}  // namespace ringway::e2e
