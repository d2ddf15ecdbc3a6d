#include "daemon/core/prober.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace ringway::core {
namespace {

using std::chrono::milliseconds;
using Step = Prober::Step;

constexpr PeerId kSelf{2};
constexpr PeerId kA{3};
constexpr PeerId kB{4};

// One prober whose others are played by the test.
class ProberTest : public testing::Test {
 protected:
  std::optional<PeerId> Tick(bool may_send = true) {
    now_ += milliseconds(100);
    return prober_.Tick(now_, may_send);
  }
  void On(PeerId from, Step step) { prober_.On(from, step, now_); }
  using Messages = std::vector<Prober::Message>;
  Messages Said() { return prober_.TakeMessages(); }
  // A probe of A that has begun.
  void BeginA(std::uint64_t bytes) {
    prober_.Want(kA, bytes);
    Tick();
    Tick();
    On(kA, Step::kGrant);
    ASSERT_EQ(prober_.turn(), kA);
    (void)Said();
  }

  Prober prober_;
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(ProberTest, AllAreAskedAndTheFirstWithTimeIsTheFirst) {
  prober_.Want(kA, 1000);
  prober_.Want(kB, 1000);
  Tick();
  EXPECT_TRUE(Said().empty()) << "it may be a short pause between operations";
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}, {kB, Step::kAsk}}));
  EXPECT_EQ(prober_.turn(), std::nullopt);
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), kB);
  On(kA, Step::kGrant);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}})) << "one at a time";
  EXPECT_EQ(prober_.turn(), kB);
}

TEST_F(ProberTest, ItsBytesAreTheEndAndATickOfGraceFollows) {
  BeginA(1000);
  EXPECT_EQ(prober_.Take(600), 600u);
  EXPECT_EQ(Tick(), std::nullopt);
  EXPECT_EQ(prober_.Take(600), 400u);
  EXPECT_EQ(prober_.Take(600), 0u);
  EXPECT_EQ(Tick(), std::nullopt) << "what is under way is still counted";
  EXPECT_EQ(Tick(), kA);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}}));
  prober_.Want(kA, 1000);
  Tick();
  Tick();
  EXPECT_TRUE(Said().empty()) << "the pair came to stand again, and was probed before";
}

TEST_F(ProberTest, EachIsProbedOnceMoreWhenItsHostHasComeToRest) {
  BeginA(1000);
  EXPECT_EQ(prober_.Take(2000), 1000u);
  (void)Tick();
  ASSERT_EQ(Tick(), kA);
  (void)Said();
  for (int tick = 1; tick < 150; ++tick) (void)Tick();
  EXPECT_TRUE(Said().empty());
  (void)Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}})) << "15 s later";
  On(kA, Step::kGrant);
  EXPECT_EQ(prober_.Take(2000), 1000u);
  (void)Tick();
  EXPECT_EQ(Tick(), kA);
  (void)Said();
  for (int tick = 0; tick < 1000; ++tick) (void)Tick();
  EXPECT_TRUE(Said().empty());
}

TEST_F(ProberTest, TimeIsUsedUpOverAllTurns) {
  BeginA(1 << 30);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(Tick(), std::nullopt);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Tick(false), std::nullopt);
  EXPECT_EQ(prober_.turn(), std::nullopt);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}})) << "others need not wait for the operation";
  Tick();
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}}));
  On(kA, Step::kGrant);
  int ticks = 1;
  while (!Tick()) ++ticks;
  EXPECT_GE(ticks, 13);
  EXPECT_LE(ticks, 16);
}

TEST_F(ProberTest, NobodyIsProbedWhileItMayNotSendAndNobodyWhoIsNotToBe) {
  prober_.Want(kB, 0);
  prober_.Want(kA, 1000);
  Tick(false);
  Tick(true);
  Tick(false);
  EXPECT_TRUE(Said().empty());
  Tick();
  Tick();
  EXPECT_EQ(Said(), (Messages{{kA, Step::kAsk}}));
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), std::nullopt) << "it was not asked";
  On(kSelf, Step::kGrant);
  EXPECT_EQ(prober_.turn(), std::nullopt) << "nor was a stranger";
}

TEST_F(ProberTest, AShortOperationInterruptsNoTurnAndALongOneEndsIt) {
  BeginA(1000);
  for (int i = 0; i < 9; ++i) Tick(false);
  EXPECT_EQ(prober_.turn(), kA);
  Tick();
  for (int i = 0; i < 9; ++i) Tick(false);
  EXPECT_EQ(prober_.turn(), kA);
  Tick(false);
  EXPECT_EQ(prober_.turn(), std::nullopt);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kRelease}})) << "others need not wait for it";
}

TEST_F(ProberTest, WhoIsForgottenInItsTurnMakesRoom) {
  prober_.Want(kB, 1000);
  BeginA(1000);
  prober_.Forget(kA);
  EXPECT_EQ(prober_.turn(), std::nullopt);
  On(kB, Step::kGrant);
  EXPECT_EQ(prober_.turn(), kB);
}

TEST_F(ProberTest, WhoStandsAgainIsAskedAgain) {
  prober_.Want(kA, 1000);
  Tick();
  Tick();
  ASSERT_EQ(Said().size(), 1u);
  Tick();
  EXPECT_TRUE(Said().empty());
  prober_.Want(kA, 1000);
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
  for (int i = 0; i < 70; ++i) Tick(false);
  EXPECT_EQ(Said(), (Messages{{kB, Step::kGrant}}));
  On(kA, Step::kAsk);
  prober_.Forget(kB);
  Tick(false);
  EXPECT_EQ(Said(), (Messages{{kA, Step::kGrant}}));
}

// Sixteen of them, whatever they say arriving a tick later: each pair is probed, and never two probe one.
TEST(ProbersTest, AllPairsAreProbedAndNoneByTwoAtOnce) {
  constexpr std::uint64_t kPeers = 16;
  std::map<PeerId, Prober> probers;
  for (std::uint64_t i = 1; i <= kPeers; ++i) {
    for (std::uint64_t j = 1; j <= kPeers; ++j) {
      if (i != j) probers[PeerId(i)].Want(PeerId(j), 1000);
    }
  }
  std::map<std::pair<PeerId, PeerId>, int> probed;
  TimePoint now{std::chrono::seconds(10)};
  int ticks = 0;
  for (; probed.size() < kPeers * (kPeers - 1) && ticks < 2000; ++ticks) {
    now += milliseconds(100);
    std::set<PeerId> targets;
    std::vector<std::pair<PeerId, Prober::Message>> under_way;
    for (auto& [self, prober] : probers) {
      const auto ended = prober.Tick(now, true);
      if (ended) {
        EXPECT_LE(++probed[std::pair(self, *ended)], 2);
      }
      if (const auto turn = prober.turn()) {
        EXPECT_TRUE(targets.insert(*turn).second) << turn->value;
        (void)prober.Take(500);
      }
      for (const Prober::Message& said : prober.TakeMessages()) under_way.emplace_back(self, said);
    }
    for (const auto& [from, said] : under_way) probers[said.to].On(from, said.step, now);
  }
  EXPECT_EQ(probed.size(), kPeers * (kPeers - 1));
  EXPECT_LT(ticks, 15 * 20) << "most of them probe somebody at any time";
}

}  // namespace
}  // namespace ringway::core
