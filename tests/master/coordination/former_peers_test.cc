#include "master/coordination/former_peers.h"

#include <gtest/gtest.h>

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

FormerPeer Numbered(std::uint64_t number) {
  FormerPeer former;
  former.peer = PeerId(number);
  former.why = std::to_string(number);
  return former;
}

TEST(FormerPeersTest, FirstOneIsForgottenWhereThereAreTooMany) {
  FormerPeers formers;
  for (std::uint64_t i = 1; i <= FormerPeers::kMax + 1; ++i) formers.Add(Numbered(i));
  EXPECT_EQ(formers.size(), FormerPeers::kMax);
  EXPECT_EQ(formers.Find(PeerId(1)), nullptr);
  ASSERT_NE(formers.Find(PeerId(2)), nullptr);
  EXPECT_EQ(formers.Find(PeerId(2))->why, "2");
}

TEST(FormerPeersTest, NewOnesAreTakenOnceInTheirOrder) {
  FormerPeers formers;
  formers.Add(Numbered(9));
  EXPECT_EQ(formers.TakeNew().size(), 1u);
  formers.Add(Numbered(8));
  formers.Add(Numbered(3));
  const std::vector<FormerPeer> taken = formers.TakeNew();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].why, "8");
  EXPECT_EQ(taken[1].why, "3");
  EXPECT_TRUE(formers.TakeNew().empty());
  for (std::uint64_t i = 10; i < 10 + 2 * FormerPeers::kMax; ++i) formers.Add(Numbered(i));
  EXPECT_EQ(formers.TakeNew().size(), FormerPeers::kMax);
}

// Tests why the third of three peers was dropped.
class FormerPeersOfAGroup : public CoordinatorTest {
 protected:
  // Returns why the one peer that was dropped since the last call was dropped; "" if none or several were.
  std::string Why() {
    const std::vector<FormerPeer> dropped = coordinator_->TakeDropped();
    return dropped.size() == 1 ? dropped.front().why : "";
  }
  // Returns what the daemon `name`, whose process is `instance`, gets when it comes back with peer 3.
  std::string TextFor(const std::string& name, std::uint64_t instance) {
    Hello(30, name, instance);
    control::ToMaster roster;
    roster.mutable_roster()->add_peers(peers_[3]);
    Say(30, roster);
    const auto* evicted = Last(30, &control::FromMaster::has_evicted);
    return evicted == nullptr ? "" : evicted->evicted().text();
  }
  void LoseTheThird(Contact how) {
    Form(3);
    const std::uint64_t epoch = ViewOf(1).epoch();
    coordinator_->OnDisconnect(3, how, now_);
    Advance(std::chrono::milliseconds(1250));
    Say(1, Report(1, epoch, {3}));
    Say(2, Report(2, epoch, {3}));
    Wait(kDetect + kBack, {1, 2});
    ASSERT_EQ(ViewOf(1).members_size(), 2);
  }
};

TEST_F(FormerPeersOfAGroup, DaemonThatWasAwayHearsWhoLostItsPeer) {
  LoseTheThird(Contact::kClosed);
  const std::string why =
      "p1 (d1.example:1), p2 (d2.example:1) lost contact with it; its daemon closed its connection to the master 1.2 s "
      "ago";
  EXPECT_EQ(Why(), why);
  EXPECT_EQ(TextFor("d3", 3), why + ", and group g went on: rejoin and take its state");
}

TEST_F(FormerPeersOfAGroup, AnotherDaemonHearsNothingOfIt) {
  LoseTheThird(Contact::kClosed);
  EXPECT_NE(TextFor("d3", 4).find("does not know peer"), std::string::npos) << "another process";
  EXPECT_EQ(TextFor("d30", 3).find("lost contact"), std::string::npos) << "another name";
}

TEST_F(FormerPeersOfAGroup, SilentOneHearsForHowLong) {
  Form(3);
  Say(1, Report(1, ViewOf(1).epoch()));
  Say(2, Report(2, ViewOf(1).epoch()));
  Wait(2 * kDetect + kBack, {1, 2});
  const std::string why = Why();
  EXPECT_EQ(why.find("the master has not heard its daemon for "), 0u) << why;
  EXPECT_EQ(TextFor("d3", 3).find(why), 0u);
}

TEST_F(FormerPeersOfAGroup, LogHasWhoAnOperatorEvictedAndWhoLeft) {
  Form(3);
  control::EvictRequest request;
  request.set_group("g");
  request.set_peer("p3");
  ASSERT_TRUE(coordinator_->Evict(request, now_).ok());
  Collect();
  for (const std::uint64_t i : {1, 2}) Say(i, Report(i, ViewOf(1).epoch()));
  EXPECT_EQ(Why(), "an operator evicted it");
  Withdraw(2);
  Say(1, Report(1, ViewOf(1).epoch()));
  EXPECT_EQ(Why(), "it left");
}

TEST_F(FormerPeersOfAGroup, ItsFieldsNameItAndItsDaemon) {
  LoseTheThird(Contact::kClosed);
  const std::vector<FormerPeer> dropped = coordinator_->TakeDropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].peer, PeerId(peers_[3]));
  EXPECT_EQ(dropped[0].group, "g");
  EXPECT_EQ(dropped[0].name, "p3");
  EXPECT_EQ(dropped[0].address, "d3.example:1");
  EXPECT_EQ(dropped[0].daemon, "d3");
}

}  // namespace
}  // namespace ringway
