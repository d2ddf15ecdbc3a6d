// A master that writes down what it changes, dies, and goes on from its journal.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

class RestartTest : public CoordinatorTest {
 protected:
  RestartTest() { coordinator_.emplace(CoordinatorOptions{.term = 1, .journaled = true}); }

  // Everything but the journal is lost; all connections are gone.
  void Restart() {
    const std::uint32_t term = coordinator_->options().term + 1;
    coordinator_.emplace(CoordinatorOptions{.term = term, .journaled = true});
    std::vector<record::Group> groups;
    for (const auto& [name, group] : journal_) groups.push_back(group);
    coordinator_->Recover(groups, now_);
    inbox_.clear();
    closed_.clear();
    said_hello_.clear();
  }

  // The daemon of `connection` comes back with its peer.
  void Return(std::uint64_t connection) {
    Hello(connection, "d" + std::to_string(connection), connection);
    said_hello_.insert(connection);
  }

  void SayRoster(std::uint64_t connection, std::initializer_list<std::uint64_t> peers) {
    control::ToMaster message;
    message.mutable_roster();
    for (const std::uint64_t peer : peers) message.mutable_roster()->add_peers(peer);
    Say(connection, message);
  }
};

TEST_F(RestartTest, NobodyHearsOfAViewBeforeItIsWrittenDown) {
  peers_[1] = Join(1, 2);
  peers_[2] = Join(2, 2);
  disk_full_ = true;
  Connect(1, 2);
  ASSERT_TRUE(coordinator_->NeedsRecord());
  EXPECT_EQ(ViewOf(1).epoch(), 0u);
  Heartbeats({1, 2});
  EXPECT_NE(Last(1, &control::FromMaster::has_heartbeat), nullptr) << "what changes no group goes on";
  disk_full_ = false;
  Advance({});
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(journal_.at("g").current().epoch(), ViewOf(1).epoch());
}

// A store may take its time: the newcomer is gone before its view is written.
TEST_F(RestartTest, GroupThatChangesWhileItIsWrittenIsHeldBackUntilThatIsWrittenToo) {
  Form(2);
  slow_disk_ = true;
  Newcomer(3, {1, 2});
  ASSERT_EQ(coordinator_->BeginRecord().size(), 1U);
  Withdraw(3);
  inbox_.clear();
  coordinator_->OnRecorded(now_);
  Collect();
  EXPECT_TRUE(coordinator_->NeedsRecord());
  EXPECT_FALSE(Has(1, &control::FromMaster::has_view)) << "its record is of an older state";
  slow_disk_ = false;
  Collect();
  EXPECT_FALSE(coordinator_->NeedsRecord());
  EXPECT_TRUE(Has(1, &control::FromMaster::has_view) || Has(1, &control::FromMaster::has_revoke_prepared));
}

TEST_F(RestartTest, FullDiskStopsChangesOfTheGroupAndNothingElse) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  disk_full_ = true;
  Newcomer(4, {1, 2, 3});
  coordinator_->OnDisconnect(3, Contact::kClosed, now_);
  Say(1, Report(1, epoch, {3}));
  Say(2, Report(2, epoch, {3}));
  ASSERT_NE(Last(1, &control::FromMaster::has_abort), nullptr) << "who is not asked seems silent";
  const std::uint64_t stop = Last(1, &control::FromMaster::has_abort)->abort().epoch();
  for (const std::uint64_t i : {1, 2, 4}) Say(i, Report(i, stop, {3}));
  Wait(2 * kDetect, {1, 2, 4});
  EXPECT_EQ(ViewOf(1).epoch(), epoch);
  EXPECT_EQ(Last(3, &control::FromMaster::has_evicted), nullptr);
  disk_full_ = false;
  Advance({});
  EXPECT_EQ(ViewOf(1).members_size(), 2) << "what had to wait happens now";
}

TEST_F(RestartTest, WhoWaitsForTheJournalHearsItAndWhenItIsBack) {
  Form(2);
  disk_full_ = true;
  peers_[3] = Join(3, 1);
  EXPECT_EQ(PendingText(3).find("journal"), std::string::npos) << "the group may change once";
  Connect(3, 1);
  Connect(3, 2);
  ASSERT_TRUE(coordinator_->NeedsRecord());
  EXPECT_NE(PendingText(3).find("cannot write its journal"), std::string::npos) << PendingText(3);
  const auto* pending = Last(3, &control::FromMaster::has_pending);
  EXPECT_EQ(static_cast<Code>(pending->pending().code()), Code::kMasterUnreachable);
  peers_[4] = Join(4, 1);
  EXPECT_NE(PendingText(4).find("cannot write its journal"), std::string::npos) << "who comes later, too";
  EXPECT_FALSE(Has(3, &control::FromMaster::has_view));
  disk_full_ = false;
  Advance({});
  EXPECT_TRUE(Has(3, &control::FromMaster::has_view));
  EXPECT_EQ(PendingText(3).find("journal"), std::string::npos) << PendingText(3);
  EXPECT_EQ(PendingText(4).find("journal"), std::string::npos) << PendingText(4);
}

TEST_F(RestartTest, MembersThatComeBackKeepTheirViewAndNobodyIsDisturbed) {
  Form(3);
  const control::View before = ViewOf(1);
  Restart();
  EXPECT_EQ(TheGroup().current().epoch(), before.epoch());
  for (const std::uint64_t i : {1, 2, 3}) Return(i);
  Wait(3 * kDetect, {1, 2, 3});
  EXPECT_EQ(TheGroup().current().epoch(), before.epoch());
  EXPECT_EQ(TheGroup().current().members_size(), 3);
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort), nullptr);
  EXPECT_EQ(ViewOf(1).SerializeAsString(), before.SerializeAsString()) << "a member that missed it gets it again";
}

TEST_F(RestartTest, EpochsAndIdsOfAllLivesDiffer) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  std::set<std::uint64_t> peers{peers_[1], peers_[2]};
  for (std::uint64_t life = 0; life < 3; ++life) {
    Restart();
    Return(1);
    Return(2);
    const std::uint64_t id = 10 + life;
    EXPECT_TRUE(peers.insert(Join(id, 1, "other" + std::to_string(life))).second);
  }
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  EXPECT_GT(ViewOf(1).epoch(), Epoch::Of(4, 0).value);
}

TEST_F(RestartTest, DeathDuringTheOutageIsRecoveredWhenTheOthersAreBack) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Restart();
  Return(1);
  Say(1, Report(1, epoch, {3}));
  EXPECT_EQ(ViewOf(1).epoch(), epoch);
  Return(2);
  ASSERT_NE(Last(2, &control::FromMaster::has_abort), nullptr);
  Say(2, Report(2, epoch, {3}));
  Advance(kWeigh);
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(Epoch(ViewOf(1).epoch()).term(), 2u);
}

TEST_F(RestartTest, FirstToComeBackDoesNotThrowOutThoseStillOnTheirWay) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Restart();
  Return(4);
  Say(4, Report(4, epoch, {1, 2, 3}));  // it hears nobody
  Advance(std::chrono::milliseconds(500));
  EXPECT_EQ(TheGroup().current().epoch(), epoch) << "they may be alive";
  for (const std::uint64_t i : {1, 2, 3}) Return(i);
  for (const std::uint64_t i : {1, 2, 3}) {
    EXPECT_EQ(TheGroup().current().epoch(), epoch) << "who is back has yet to answer";
    Say(i, Report(i, epoch));
  }
  Advance(kWeigh);
  EXPECT_EQ(ViewOf(1).members_size(), 3);
  EXPECT_NE(Last(4, &control::FromMaster::has_evicted), nullptr);
}

TEST_F(RestartTest, WordOfTheMostIsEnoughAgainstOneThatIsNotBack) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Restart();
  for (const std::uint64_t i : {1, 2, 3}) {
    Return(i);
    Say(i, Report(i, epoch, {4}));
  }
  Advance(kWeigh);
  EXPECT_EQ(ViewOf(1).members_size(), 3);
}

TEST_F(RestartTest, MemberThatNeverComesBackIsMissedWhenARecoveryWaitsForIt) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Restart();
  Return(1);
  Return(2);
  Wait(10 * kDetect, {1, 2});
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort), nullptr) << "the others have not lost it";
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  EXPECT_EQ(ViewOf(2).members_size(), 3);
  Wait(kDetect + kBack, {1, 2});
  EXPECT_EQ(ViewOf(2).members_size(), 2);
}

TEST_F(RestartTest, MemberThatReturnsDuringACollectionHasTimeToAnswer) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Restart();
  Return(1);
  Return(2);
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  Wait(kDetect + std::chrono::seconds(1), {1, 2});  // the collection is older than the detection time
  Return(3);
  Wait(std::chrono::seconds(1), {1, 2, 3});
  EXPECT_EQ(Last(3, &control::FromMaster::has_evicted), nullptr);
  Say(3, Report(3, epoch));
  EXPECT_EQ(ViewOf(1).members_size(), 3);
}

TEST_F(RestartTest, PreparedViewThatWasAdoptedDuringTheOutageIsTheCurrentOne) {
  Form(2);
  Newcomer(3, {1, 2});
  const std::uint64_t prepared = Last(3, &control::FromMaster::has_view)->view().view().epoch();
  Restart();
  for (const std::uint64_t i : {1, 2, 3}) Return(i);
  EXPECT_TRUE(Last(3, &control::FromMaster::has_view)->view().prepared());
  control::ToMaster installed;
  installed.mutable_installed()->set_peer(peers_[1]);
  installed.mutable_installed()->set_epoch(prepared);
  Say(1, installed);
  EXPECT_EQ(TheGroup().current().epoch(), prepared);
  EXPECT_EQ(TheGroup().current().members_size(), 3);
}

TEST_F(RestartTest, NewcomerThatMayHaveSwitchedIsHeardWhereNoMemberStays) {
  Form(1);
  Newcomer(2, {1});
  const std::uint64_t prepared = Last(2, &control::FromMaster::has_view)->view().view().epoch();
  Restart();
  Return(1);
  control::ToMaster withdraw;
  withdraw.mutable_withdraw()->set_peer(peers_[1]);
  Say(1, withdraw);
  Say(1, Report(1, prepared));
  Advance(kWeigh);
  ASSERT_TRUE(coordinator_->groups().contains("g"));
  Return(2);
  EXPECT_EQ(Last(2, &control::FromMaster::has_evicted), nullptr);
  control::ToMaster report = Report(2, prepared);
  report.mutable_report()->set_epoch(prepared);  // both had switched
  Say(2, report);
  EXPECT_GT(ViewOf(2).epoch(), prepared);
  ASSERT_EQ(ViewOf(2).members_size(), 1);
  EXPECT_EQ(ViewOf(2).members(0).peer_id(), peers_[2]);
}

TEST_F(RestartTest, MinimumOfAFormerMemberOutlivesTheRestart) {
  Form(2);
  journal_.at("g").mutable_current()->set_min_world(2);
  Restart();
  for (const std::uint64_t i : {1, 2}) Return(i);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  EXPECT_EQ(ViewOf(1).min_world(), 2u);
}

TEST_F(RestartTest, PeersThatTheDaemonNoLongerHasAreWithdrawn) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Restart();
  Return(1);
  Return(2);
  SayRoster(2, {});  // its trainer left while nobody listened
  ASSERT_NE(Last(1, &control::FromMaster::has_abort), nullptr);
  Say(1, Report(1, epoch));
  EXPECT_EQ(ViewOf(1).members_size(), 1);
}

TEST_F(RestartTest, PendingOfALostLifeLearnsThatItIsUnknown) {
  Form(1);
  peers_[2] = Join(2, 1);  // pending: not written down
  Restart();
  Return(1);
  Return(2);
  SayRoster(2, {peers_[2]});
  const auto* evicted = Last(2, &control::FromMaster::has_evicted);
  ASSERT_NE(evicted, nullptr);
  EXPECT_TRUE(evicted->evicted().unknown());
  EXPECT_EQ(evicted->evicted().peer(), peers_[2]);
}

TEST_F(RestartTest, RosterSpeaksForNobodyElsesPeers) {
  Form(2);
  SayRoster(1, {peers_[1], peers_[2]});
  EXPECT_EQ(Last(1, &control::FromMaster::has_evicted)->evicted().peer(), peers_[2]);
  Wait(kDetect, {1, 2});
  EXPECT_EQ(TheGroup().current().members_size(), 2);
  EXPECT_EQ(Last(2, &control::FromMaster::has_evicted), nullptr);
}

TEST_F(RestartTest, GroupThatEndedLeavesTheJournal) {
  Form(1);
  ASSERT_TRUE(journal_.contains("g"));
  control::ToMaster withdraw;
  withdraw.mutable_withdraw()->set_peer(peers_[1]);
  Say(1, withdraw);
  Say(1, Report(1, ViewOf(1).epoch()));
  EXPECT_TRUE(journal_.empty());
}

}  // namespace
}  // namespace ringway
