#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/daemon/flow/prober_fixture.h"

namespace ringway::flow {
namespace {

TEST_F(ProberTest, AllAreAskedAndTheFirstWithTimeIsTheFirst) {
  Want(kA, 1000);
  Want(kB, 1000);
  Tick();
  EXPECT_TRUE(Said().empty()) << "it may be a short pause between operations";
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}, {kB, Step::kAsk}}));
  EXPECT_EQ(prober_.turn(), kNoPeer);
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), (std::set{kB}));
  On(kA, Step::kGrant);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}})) << "one at a time";
  EXPECT_EQ(prober_.turn(), (std::set{kB}));
}

TEST_F(ProberTest, ItsBytesAreTheEndAndATickOfGraceFollows) {
  BeginA(1000);
  EXPECT_EQ(prober_.Take(kA, 600), 600u);
  EXPECT_EQ(Tick(), kNoPeer);
  EXPECT_EQ(prober_.Take(kA, 600), 400u);
  EXPECT_EQ(prober_.Take(kA, 600), 0u);
  EXPECT_EQ(Tick(), kNoPeer) << "what is under way is still counted";
  EXPECT_EQ(Tick(), (std::set{kA}));
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}}));
  Want(kA, 1000);
  Tick();
  Tick();
  EXPECT_TRUE(Said().empty()) << "the pair came to stand again, and was probed before";
}

TEST_F(ProberTest, EachIsProbedOnceMoreWhenItsHostHasComeToRest) {
  BeginA(1000);
  EXPECT_EQ(prober_.Take(kA, 2000), 1000u);
  (void)Tick();
  ASSERT_EQ(Tick(), (std::set{kA}));
  (void)Said();
  for (int tick = 1; tick < 150; ++tick) (void)Tick();
  EXPECT_TRUE(Said().empty());
  (void)Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}})) << "15 s later";
  On(kA, Step::kGrant);
  EXPECT_EQ(prober_.Take(kA, 2000), 1000u);
  (void)Tick();
  EXPECT_EQ(Tick(), (std::set{kA}));
  (void)Said();
  for (int tick = 0; tick < 1000; ++tick) (void)Tick();
  EXPECT_TRUE(Said().empty());
}

class AgainTest : public ProberTest {
 protected:
  void SetUp() override {
    BeginA(1000);
    Probe();
    EXPECT_GT(TicksUntilAsked(), 140);
    On(kA, Step::kGrant);
    Probe();
  }
  void Probe() {
    EXPECT_EQ(prober_.Take(kA, 2000), 1000u);
    while (Tick().empty()) {
    }
    (void)Said();
  }
  int TicksUntilAsked() {
    for (int ticks = 1; ticks < 1'000'000; ++ticks) {
      (void)Tick();
      if (!Said().empty()) return ticks;
    }
    return 0;
  }
};

TEST_F(AgainTest, APathIsLookedAtAgainAfterPausesThatGrow) {
  for (const int minutes : {30, 60, 120, 240, 480, 480}) {
    EXPECT_NEAR(TicksUntilAsked(), minutes * 600, 2);
    On(kA, Step::kGrant);
    Probe();
  }
}

TEST_F(AgainTest, APathThatIsNotSlowIsLookedAtAgainAfterTheLongestPause) {
  book_->Learn("hostB", 5e6);
  prober_.Learn(kA, 4.5e6);
  EXPECT_NEAR(TicksUntilAsked(), 8 * 60 * 600, 2);
  On(kA, Step::kGrant);
  Probe();
  book_->Learn("hostB", 9e6);
  EXPECT_NEAR(TicksUntilAsked(), 60 * 600, 2) << "it has become slow beside the best";
}

TEST_F(AgainTest, ANewRouteIsProbedAtOnce) {
  prober_.Again(kB);  // nobody knows it
  prober_.Again(kA);
  EXPECT_LE(TicksUntilAsked(), 2);
  On(kA, Step::kGrant);
  Probe();
  EXPECT_GT(TicksUntilAsked(), 1000);
}

TEST_F(ProberTest, TimeIsUsedUpOverAllTurns) {
  BeginA(1 << 30);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(Tick(), kNoPeer);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Tick(false), kNoPeer);
  EXPECT_EQ(prober_.turn(), kNoPeer);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}})) << "others need not wait for the operation";
  Tick();
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}}));
  On(kA, Step::kGrant);
  int ticks = 1;
  while (Tick().empty()) ++ticks;
  EXPECT_GE(ticks, 13);
  EXPECT_LE(ticks, 16);
}

TEST_F(ProberTest, NobodyIsProbedWhileItMayNotSendAndNobodyWhoIsNotToBe) {
  Want(kB, 0);
  Want(kA, 1000);
  Tick(false);
  Tick(true);
  Tick(false);
  EXPECT_TRUE(Said().empty());
  Tick();
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}}));
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), kNoPeer) << "it was not asked";
  On(kSelf, Step::kGrant);
  EXPECT_EQ(prober_.turn(), kNoPeer) << "nor was a stranger";
}

TEST_F(ProberTest, AShortOperationInterruptsNoTurnAndALongOneEndsIt) {
  BeginA(1000);
  for (int i = 0; i < 9; ++i) Tick(false);
  EXPECT_EQ(prober_.turn(), (std::set{kA}));
  Tick();
  for (int i = 0; i < 9; ++i) Tick(false);
  EXPECT_EQ(prober_.turn(), (std::set{kA}));
  Tick(false);
  EXPECT_EQ(prober_.turn(), kNoPeer);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}})) << "others need not wait for it";
}

TEST_F(ProberTest, WhoIsForgottenInItsTurnMakesRoom) {
  Want(kB, 1000);
  BeginA(1000);
  prober_.Forget(kA);
  EXPECT_EQ(prober_.turn(), kNoPeer);
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), (std::set{kB}));
}

TEST_F(ProberTest, WhoStandsAgainIsAskedAgain) {
  Want(kA, 1000);
  Tick();
  Tick();
  ASSERT_EQ(Said().size(), 1u);
  Tick();
  EXPECT_TRUE(Said().empty());
  Want(kA, 1000);
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}}));
}

TEST_F(ProberTest, OneAtATimeIsGrantedAndTheOthersAfterIt) {
  On(kA, Step::kAsk);
  On(kB, Step::kAsk);
  On(kB, Step::kAsk);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
  On(kB, Step::kRelease);  // it asks no longer
  On(kB, Step::kAsk);
  EXPECT_TRUE(Said().empty());
  On(kA, Step::kRelease);
  EXPECT_EQ(Said(), (Messages{{kB, Step::kGrant}}));
  On(kA, Step::kRelease);
  EXPECT_TRUE(Said().empty());
}

TEST_F(ProberTest, WhoKeepsAGrantOrIsForgottenHoldsUpNobodyForGood) {
  On(kA, Step::kAsk);
  On(kB, Step::kAsk);
  (void)Said();
  for (int i = 0; i < 100; ++i) Tick(false);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kStop}, {kB, Step::kGrant}}));
  On(kA, Step::kAsk);
  prober_.Forget(kB);
  Tick(false);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
}

class TogetherTest : public ProberTest {
 protected:
  // Both have been probed twice.
  void SetUp() override {
    Want(kA, 1000);
    Want(kB, 1000);
    for (int ended = 0, ticks = 0;; ++ticks) {
      ASSERT_LT(ticks, 1000);
      if (!Tick().empty()) ++ended;
      asked_ = Said();
      if (ended == 4) break;
      for (const auto& said : asked_) {
        if (said.step == Step::kAsk) On(said.to, Step::kGrant);
      }
      SpendAll();
      ASSERT_LE(prober_.turn().size(), 1u);
    }
    std::erase_if(asked_, [](const auto& said) { return said.step != Step::kAsk; });
  }
  void SpendAll() {
    for (const PeerId other : prober_.turn()) (void)prober_.Take(other, 4000);
  }
  void Gather() {
    (void)Tick();
    On(kA, Step::kGrant);
    On(kB, Step::kGrant);
    ASSERT_EQ(prober_.turn(), (std::set{kA, kB}));
    (void)Said();
  }

  Messages asked_;  // when they had
};

TEST_F(TogetherTest, AllAreAskedAndSentToAtOnceAndShareTheirBytes) {
  EXPECT_EQ(asked_, (Messages{{kA, Step::kAsk}, {kB, Step::kAsk}}));
  (void)Tick();
  EXPECT_TRUE(Said().empty());
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), kNoPeer);
  On(kA, Step::kGrant);
  ASSERT_EQ(prober_.turn(), (std::set{kA, kB}));
  EXPECT_EQ(prober_.Take(kA, 1200), 1200u);
  EXPECT_EQ(Tick(), kNoPeer);
  EXPECT_EQ(Tick(), kNoPeer) << "bytes are left";
  EXPECT_EQ(prober_.Take(kB, 2000), 800u);
  EXPECT_EQ(Tick(), kNoPeer);
  EXPECT_EQ(Tick(), (std::set{kA, kB}));
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}, {kB, Step::kRelease}}));
  for (int tick = 0; tick < 1000; ++tick) (void)Tick();
  EXPECT_TRUE(Said().empty()) << "once";
}

TEST_F(TogetherTest, TwiceAsManyAreProbedTogetherAgain) {
  Gather();
  SpendAll();
  while (Tick().empty()) {
  }
  (void)Said();
  std::set<PeerId> all = {kA, kB};
  for (std::uint64_t id = 10; id < 12; ++id) {
    Want(PeerId(id), 1000);
    all.insert(PeerId(id));
  }
  std::set<PeerId> ended;
  for (int tick = 0; tick < 1000 && ended.size() < 2; ++tick) {
    ended = Tick();
    for (const auto& said : Said()) {
      if (said.step == Step::kAsk) On(said.to, Step::kGrant);
    }
    SpendAll();
  }
  EXPECT_EQ(ended, all);
}

TEST_F(TogetherTest, WhatWasGatheredIsReleasedWhenANewOneComesOrTooFewGrant) {
  (void)Tick();
  On(kA, Step::kGrant);
  (void)Said();
  for (int tick = 0; tick < 51; ++tick) (void)Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}, {kB, Step::kRelease}})) << "B is not waited for any longer";
  On(kB, Step::kGrant);
  EXPECT_EQ(Said(), (Messages{{kB, Step::kRelease}})) << "it crossed";
  Messages said;
  int pause = 0;
  for (; said.empty() && pause < 1000; ++pause) {
    (void)Tick();
    said = Said();
  }
  EXPECT_GT(pause, 70) << "7.5 to 22.5 s, by who it is";
  EXPECT_LT(pause, 230);
  EXPECT_EQ(said, (Messages{{kA, Step::kAsk}, {kB, Step::kAsk}}));
  On(kA, Step::kGrant);
  (void)Said();
  Want(PeerId(9), 1000);
  (void)Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}, {kB, Step::kRelease}, {PeerId(9), Step::kAsk}}));
}

TEST_F(TogetherTest, HalfOfThemShowTheUplinkToo) {
  for (const std::uint64_t id : {10, 11}) {
    book_->At("host" + std::to_string(id)).OnProbed(now_);
    book_->Learn("host" + std::to_string(id), 1e6);
    Want(PeerId(id), 1000);
  }
  (void)Tick();
  On(kA, Step::kGrant);
  On(PeerId(11), Step::kGrant);
  EXPECT_EQ(prober_.turn(), kNoPeer);
  for (int tick = 0; tick < 52 && prober_.turn().empty(); ++tick) (void)Tick();
  EXPECT_EQ(prober_.turn(), (std::set{kA, PeerId(11)}));
}

TEST_F(TogetherTest, AnOperationEndsItAndItIsGatheredAgainForWhatIsLeft) {
  Gather();
  EXPECT_EQ(prober_.Take(kA, 400), 400u);
  for (int i = 0; i < 10; ++i) (void)Tick(false);
  EXPECT_EQ(prober_.turn(), kNoPeer);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}, {kB, Step::kRelease}}));
  (void)Tick();
  Gather();
  EXPECT_EQ(prober_.Take(kA, 2000), 1600u);
}

TEST_F(TogetherTest, OperationsThatAlwaysInterruptItDoNotMakeItLastForEver) {
  std::uint64_t sent = 0;
  for (int round = 0; round < 20; ++round) {
    for (int tick = 0; tick < 5; ++tick) {
      (void)Tick();
      for (const auto& said : Said()) {
        if (said.step == Step::kAsk) On(said.to, Step::kGrant);
      }
      for (const PeerId other : prober_.turn()) sent += prober_.Take(other, 100);
    }
    for (int tick = 0; tick < 20; ++tick) (void)Tick(false);
  }
  EXPECT_EQ(sent, 2000u);
}

TEST_F(TogetherTest, WhoIsForgottenIsNotWaitedFor) {
  (void)Tick();
  On(kA, Step::kGrant);
  Want(PeerId(9), 0);
  prober_.Forget(kB);
  (void)Said();
  (void)Tick();
  EXPECT_EQ(prober_.turn(), kNoPeer) << "one is not several";
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}}));
}

TEST_F(ProberTest, AProbeThatSettlesEndsAtTheNextTickAndIsTheLastForLong) {
  BeginA(1000);
  EXPECT_EQ(prober_.Take(kA, 400), 400u);
  Settle();
  EXPECT_EQ(prober_.turn(), kNoPeer) << "nothing more is to be sent";
  now_ += milliseconds(100);
  const Prober::Ended ended = prober_.Tick(now_, true);
  prober_.Learn(kA, 5e6);
  EXPECT_EQ(ended.others, (std::set{kA}));
  EXPECT_EQ(ended.bytes, 400u);
  EXPECT_TRUE(ended.settled);
  (void)Said();
  for (int tick = 0; tick < 1000; ++tick) (void)Tick();
  EXPECT_TRUE(Said().empty());
}

TEST_F(ProberTest, AProbeThatHasSettledIsOverWhateverBeginsThen) {
  Want(kB, 1000);
  BeginA(1000);
  EXPECT_EQ(prober_.Take(kA, 400), 400u);
  Settle();
  On(kA, Step::kStop);
  EXPECT_EQ(Tick(false), (std::set{kA}));
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}}));
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), (std::set{kB})) << "the next one is sent to";
}

TEST_F(ProberTest, AHostThatHasWorkIsNotSentToUntilItGrantsAgain) {
  BeginA(1000);
  On(kB, Step::kStop);
  EXPECT_EQ(prober_.turn(), (std::set{kA})) << "it has nothing to say";
  On(kA, Step::kStop);
  EXPECT_EQ(prober_.turn(), kNoPeer);
  for (int i = 0; i < 9; ++i) Tick();
  EXPECT_TRUE(Said().empty());
  On(kA, Step::kGrant);
  EXPECT_EQ(prober_.turn(), (std::set{kA}));
  EXPECT_EQ(prober_.Take(kA, 400), 400u);
}

TEST_F(ProberTest, AHostThatHasWorkForLongIsPutOff) {
  BeginA(1000);
  Want(kB, 1000);
  On(kA, Step::kStop);
  for (int i = 0; i < 10; ++i) Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}}));
  for (int i = 0; i < 100; ++i) Tick();
  EXPECT_EQ(Said(), (Messages{{kB, Step::kAsk}})) << "others come first";
  for (int i = 0; i < 50; ++i) Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}}));
  On(kA, Step::kGrant);
  EXPECT_EQ(prober_.turn(), (std::set{kA}));
}

TEST_F(ProberTest, AStopBeforeAllHaveGrantedTakesTheGrantBack) {
  for (const PeerId other : {kA, kB}) {
    Want(other, 1000);
    book_->At("host" + std::to_string(other.value)).OnProbed(now_);
    book_->Learn("host" + std::to_string(other.value), 1e6);
  }
  Tick();
  Tick();
  On(kA, Step::kGrant);
  (void)Said();
  On(kA, Step::kStop);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}}));
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), kNoPeer) << "A has work";
}

TEST_F(ProberTest, AHostWithWorkGrantsNothingAndHoldsWhatItGranted) {
  On(kA, Step::kAsk);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
  book_->OnWork(now_);
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kStop}}));
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}})) << "after a moment without";
  book_->OnWork(now_);
  Tick();
  On(kA, Step::kRelease);
  On(kB, Step::kAsk);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kStop}}));
  Tick();
  EXPECT_EQ(Said(), (Messages{{kB, Step::kGrant}}));
}

// Sixteen of them, whatever they say arriving a tick later: each pair is probed, and never two probe one.
TEST(ProbersTest, AllPairsAreProbedAndNoneByTwoAtOnce) {
  constexpr std::uint64_t kPeers = 16;
  std::map<PeerId, Prober> probers;
  TimePoint now{std::chrono::seconds(10)};
  for (std::uint64_t i = 1; i <= kPeers; ++i) {
    Prober& prober = probers.try_emplace(PeerId(i), PeerId(i), std::make_shared<ProbeBook>()).first->second;
    std::set<PeerId> others;
    for (std::uint64_t j = 1; j <= kPeers; ++j) {
      if (i == j) continue;
      prober.Want(PeerId(j), "host" + std::to_string(j), 1000, now);
      others.insert(PeerId(j));
    }
    prober.SetUsed(others);
  }
  std::map<std::pair<PeerId, PeerId>, int> probed;
  int ticks = 0;
  int all_once = 0;
  std::uint64_t together = 0;
  for (; together < kPeers && ticks < 2000; ++ticks) {
    if (probed.size() < kPeers * (kPeers - 1)) all_once = ticks;
    now += milliseconds(100);
    std::set<PeerId> targets;
    std::vector<std::pair<PeerId, Prober::Message>> under_way;
    for (auto& [self, prober] : probers) {
      const std::set<PeerId> ended = prober.Tick(now, true).others;
      together += ended.size() >= (kPeers - 1) / 2;
      for (const PeerId other : ended) {
        EXPECT_LE(++probed[std::pair(self, other)], 3);
      }
      for (const PeerId other : prober.turn()) {
        EXPECT_TRUE(targets.insert(other).second) << other.value;
        (void)prober.Take(other, 500);
      }
      for (const Prober::Message& said : prober.TakeMessages()) under_way.emplace_back(self, said);
    }
    for (const auto& [from, said] : under_way) probers.at(said.to).On(from, said.step, now);
  }
  EXPECT_EQ(probed.size(), kPeers * (kPeers - 1));
  EXPECT_LT(all_once, 15 * 20) << "most of them probe somebody at any time";
  EXPECT_EQ(together, kPeers) << "none of them waits for good for what another holds";
}

}  // namespace
}  // namespace ringway::flow
