// The state that the probers of one host share, and which of many hosts they probe.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/flow/prober.h"
#include "tests/daemon/flow/prober_fixture.h"

namespace ringway::flow {
namespace {

// ---------------------------------------------------------------------------------------------- of one host

class HostProbersTest : public ProberTest {
 protected:
  static constexpr PeerId kNeighbour{5};

  Messages SaidByNeighbour() { return neighbour_.TakeMessages(); }
  void TickNeighbour() { (void)neighbour_.Tick(now_, true); }

  Prober neighbour_{kNeighbour, book_};
};

TEST_F(HostProbersTest, OnePeerProbesForAllOfItsHost) {
  neighbour_.Want(PeerId(7), "host3", 1000, now_);  // another peer of A's host
  BeginA(1000);
  TickNeighbour();
  TickNeighbour();
  neighbour_.On(PeerId(7), Step::kGrant, now_);
  EXPECT_EQ(neighbour_.turn(), kNoPeer) << "two at once would measure each other";
  EXPECT_EQ(SaidByNeighbour(), (Messages{{PeerId(7), Step::kRelease}})) << "nor does it ask";
  Settle();
  (void)Tick();
  prober_.Learn(kA, 5e6);
  for (int tick = 0; tick < 1000; ++tick) {
    now_ += milliseconds(100);
    TickNeighbour();
  }
  EXPECT_TRUE(SaidByNeighbour().empty()) << "it was measured";
  EXPECT_EQ(neighbour_.RateTo(PeerId(7)), 5e6);
}

TEST_F(HostProbersTest, OfOneHostOnePeerIsProbedAndThatByOne) {
  On(kA, Step::kAsk);
  neighbour_.On(kB, Step::kAsk, now_);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
  EXPECT_TRUE(SaidByNeighbour().empty());
  On(kA, Step::kRelease);
  TickNeighbour();
  EXPECT_EQ(SaidByNeighbour(), (Messages{{kB, Step::kGrant}}));
}

TEST_F(HostProbersTest, WhoAsksAllTheTimeIsNotTheOnlyOneThatIsGranted) {
  On(kA, Step::kAsk);
  neighbour_.On(kB, Step::kAsk, now_);
  On(kA, Step::kRelease);
  On(kA, Step::kAsk);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
  TickNeighbour();
  EXPECT_EQ(SaidByNeighbour(), (Messages{{kB, Step::kGrant}}));
  neighbour_.On(kB, Step::kRelease, now_);
  neighbour_.On(kB, Step::kAsk, now_);
  EXPECT_TRUE(SaidByNeighbour().empty());
  (void)Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
}

TEST_F(HostProbersTest, WhatOnePeersProbeShowsTheOthersOfItsHostAdopt) {
  neighbour_.Want(PeerId(7), "host3", 1000, now_);
  EXPECT_TRUE(neighbour_.TakeProbed().empty());
  BeginA(1000);
  Settle();
  (void)Tick();
  prober_.Learn(kA, 5e6);
  EXPECT_EQ(neighbour_.TakeProbed(), (std::map<PeerId, double>{{PeerId(7), 5e6}}));
  EXPECT_TRUE(neighbour_.TakeProbed().empty()) << "once";
  EXPECT_TRUE(prober_.TakeProbed().empty()) << "it was its own";
}

TEST_F(HostProbersTest, WhoGoesInItsTurnMakesRoomForItsNeighbours) {
  {
    Prober third(PeerId(6), book_);
    third.On(kA, Step::kAsk, now_);
    third.Want(kB, "host4", 1000, now_);
    (void)third.Tick(now_, true);
    (void)third.Tick(now_, true);
    third.On(kB, Step::kGrant, now_);
    ASSERT_EQ(third.turn(), (std::set{kB}));
  }
  On(kA, Step::kAsk);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
  BeginA(1000);
}

TEST_F(HostProbersTest, APeerOfTheSameHostIsNeverProbed) {
  Want(kA, "", 1000);
  for (int tick = 0; tick < 100; ++tick) (void)Tick();
  EXPECT_TRUE(Said().empty());
}

TEST_F(HostProbersTest, ADaysBytesAreTheEndForAllPeersUntilTheyHaveRunOff) {
  *book_ = ProbeBook(4 << 20);
  Want(kA, 3 << 20);
  const auto spend = [&] {
    std::uint64_t sent = 0;
    for (int tick = 0; tick < 200; ++tick) {
      (void)Tick();
      for (const auto& said : Said()) {
        if (said.step == Step::kAsk) On(said.to, Step::kGrant);
      }
      if (!prober_.turn().empty()) sent += prober_.Take(kA, 1 << 30);
      prober_.Again(kA);
    }
    return sent;
  };
  EXPECT_NEAR(static_cast<double>(spend()), 2 << 20, 1000) << "half of them at once";
  now_ += std::chrono::hours(6);
  EXPECT_LT(spend(), 1u << 20);
  now_ += std::chrono::hours(12);
  const std::uint64_t later = spend();
  EXPECT_GE(later, 1u << 20) << "half of a half in each six hours";
  EXPECT_LT(later, 2u << 20);
}

// ---------------------------------------------------------------------------------------------- of many hosts

class ManyHostsTest : public ProberTest {
 protected:
  // Hosts 10 .. 19 are wanted, 12 and 17 are on the rings.
  void SetUp() override {
    for (std::uint64_t id = 10; id < 20; ++id) Want(PeerId(id), 1000);
    prober_.SetUsed({PeerId(12), PeerId(17)});
  }
  // Runs until nobody is probed for a minute. Those that were, alone and with others.
  std::pair<std::set<PeerId>, std::set<PeerId>> ProbeAll() {
    std::pair<std::set<PeerId>, std::set<PeerId>> probed;
    for (int quiet = 0; quiet < 600; ++quiet) {
      for (const auto& said : Said()) {
        if (said.step == Step::kAsk) On(said.to, Step::kGrant);
      }
      Settle();
      const std::set<PeerId> ended = Tick();
      if (!ended.empty()) quiet = 0;
      if (ended.size() == 1 && prober_.RateTo(*ended.begin()) == 0) prober_.Learn(*ended.begin(), 1e8);
      (ended.size() > 1 ? probed.second : probed.first).insert(ended.begin(), ended.end());
    }
    return probed;
  }
};

TEST_F(ManyHostsTest, TheNeighboursOnTheRingsAreProbedAndAllTogether) {
  const auto [alone, together] = ProbeAll();
  EXPECT_EQ(alone, (std::set{PeerId(12), PeerId(17)}));
  EXPECT_EQ(together.size(), 10u);
}

TEST_F(ManyHostsTest, TheOthersAreOnceANeighbourIsSlowerThanTheUplink) {
  ASSERT_EQ(ProbeAll().first.size(), 2u);
  prober_.Learn({}, 1e8);
  prober_.Learn(PeerId(12), 9e7);
  EXPECT_EQ(ProbeAll().first, kNoPeer);
  prober_.Learn(PeerId(12), 5e7);
  EXPECT_EQ(ProbeAll().first.size(), 9u) << "it too, for that is in doubt";
}

TEST_F(ManyHostsTest, HalfOfThemAreEnoughForTheUplinkAndOnce) {
  int together = 0;
  for (int tick = 0; tick < 6000; ++tick) {
    for (const auto& said : Said()) {
      if (said.step == Step::kAsk && said.to.value % 2 == 0) On(said.to, Step::kGrant);
      if (said.step == Step::kAsk && said.to == PeerId(17) && together == 0) On(said.to, Step::kGrant);
    }
    Settle();
    const std::set<PeerId> ended = Tick();
    if (ended.size() == 1) prober_.Learn(*ended.begin(), 1e8);
    together += ended.size() > 1;
  }
  EXPECT_EQ(together, 1);
}

TEST_F(ManyHostsTest, ADayWithoutBytesLeftIsNoProbeOfTheUplink) {
  *book_ = ProbeBook(2000);
  for (std::uint64_t id = 10; id < 20; ++id) book_->Spend("host" + std::to_string(id), 1000, now_);
  EXPECT_TRUE(ProbeAll().second.empty());
  now_ += std::chrono::hours(24);
  EXPECT_EQ(ProbeAll().second.size(), 10u);
}

TEST_F(ManyHostsTest, APathThatLooksSlowIsProbedASecondTime) {
  prober_.Forget(PeerId(12));
  prober_.SetUsed({PeerId(17), PeerId(18)});
  int probes = 0;
  for (int tick = 0; tick < 1000; ++tick) {
    for (const auto& said : Said()) {
      if (said.step == Step::kAsk) On(said.to, Step::kGrant);
    }
    Settle();
    const std::set<PeerId> ended = Tick();
    if (ended == std::set{PeerId(17)}) prober_.Learn(PeerId(17), 1e8);
    if (ended == std::set{PeerId(18)}) prober_.Learn(PeerId(18), ++probes == 1 ? 5e7 : 1e8);
  }
  EXPECT_EQ(probes, 2);
  EXPECT_EQ(book_->At("host17").probes, 1);
}

TEST_F(ProberTest, WhoNeverComesToAFirstProbeIsOverdueEachMinute) {
  Want(kA, 1000);
  Want(kB, 0);
  Want(PeerId(9), "", 1000);
  now_ += std::chrono::seconds(59);
  EXPECT_EQ(prober_.TakeOverdue(now_), kNoPeer);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(prober_.TakeOverdue(now_), (std::set{kA, kB})) << "whether it may be probed or not";
  EXPECT_EQ(prober_.TakeOverdue(now_), kNoPeer);
  now_ += std::chrono::minutes(1);
  EXPECT_EQ(prober_.TakeOverdue(now_).size(), 2u) << "it may have had no operation until now";
  prober_.Learn(kA, 1e6);
  now_ += std::chrono::minutes(1);
  EXPECT_EQ(prober_.TakeOverdue(now_), (std::set{kB}));
}

TEST_F(ProberTest, AHostThatNeverGrantsDelaysOthersForTwoMinutes) {
  const PeerId silent(9);
  for (const PeerId other : {kA, kB, silent}) Want(other, 1000);
  std::map<std::set<PeerId>, int> turns;
  int asks = 0;
  const auto run = [&](Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      const std::set<PeerId> ended = Tick();
      if (!ended.empty()) ++turns[ended];
      if (ended.size() == 1) prober_.Learn(*ended.begin(), ended.contains(kA) ? 10e6 : 100e6);
      for (const auto& said : Said()) {
        asks += said.to == silent && said.step == Step::kAsk;
        if (said.step == Step::kAsk && said.to != silent) On(said.to, Step::kGrant);
      }
      for (const PeerId other : prober_.turn()) (void)prober_.Take(other, 4000);
    }
  };
  run(ProbeBook::kNewMax - std::chrono::seconds(1));
  EXPECT_EQ(turns, (std::map<std::set<PeerId>, int>{{{kA}, 1}, {{kB}, 1}}));
  run(std::chrono::minutes(2));
  EXPECT_EQ(turns[{kA}], 2) << "it looked slow";
  EXPECT_EQ((turns[{kA, kB}]), 1);
  prober_.Again(kB);
  run(std::chrono::seconds(20));
  EXPECT_EQ(turns[{kB}], 2);
  run(std::chrono::minutes(35));
  EXPECT_EQ(turns[{kA}], 3);
  EXPECT_GT(asks, 0);
  On(silent, Step::kGrant);
  EXPECT_EQ(prober_.turn(), std::set{silent}) << "it is probed whenever it does";
}

TEST(ProbeBookTest, RemembersSoManyHostsAndForgetsTheOneLongestUnaskedFor) {
  ProbeBook book;
  for (std::size_t i = 0; i < ProbeBook::kHostsMax; ++i) book.At(std::to_string(i)).OnProbed({});
  (void)book.At("0");
  book.At("another").OnProbed({});
  EXPECT_EQ(book.At("0").probes, 1);
  EXPECT_EQ(book.At("another").probes, 1);
  EXPECT_EQ(book.At("1").probes, 0);
}

}  // namespace
}  // namespace ringway::flow
