// A master whose network fails: what it does not hear is nobody's death.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include "proto/frame_codec.h"
#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

class CutOffTest : public CoordinatorTest {
 protected:
  void Lose(std::initializer_list<std::uint64_t> connections, Contact how = Contact::kSilent) {
    for (const std::uint64_t connection : connections) {
      coordinator_->OnDisconnect(connection, how, now_);
      said_hello_.erase(connection);
    }
    Collect();
  }
  // Three members of a new master, so far apart.
  void FormAfresh(const CoordinatorOptions& options, Duration round_trip) {
    coordinator_.emplace(options);
    inbox_.clear();
    said_hello_.clear();
    round_trip_ = round_trip;
    Form(3);
  }
  void Return(std::initializer_list<std::uint64_t> connections) {
    for (const std::uint64_t connection : connections) {
      Hello(connection, "d" + std::to_string(connection), connection);
      control::ToMaster roster;
      roster.mutable_roster()->add_peers(connection);
      Say(connection, roster);
    }
  }
  // The daemon of `connection` is started again, without peers.
  void Replace(std::uint64_t connection) {
    control::ToMaster message;
    message.mutable_hello()->set_version_min(kProtocolVersionMax);
    message.mutable_hello()->set_version_max(kProtocolVersionMax);
    message.mutable_hello()->set_name("next" + std::to_string(connection));
    message.mutable_hello()->set_address("d" + std::to_string(connection) + ".example:1");
    message.mutable_hello()->set_instance(1000 + connection);
    Say(connection, message);
  }
  void PreparedRevoked(std::uint64_t connection, std::uint64_t epoch) {
    control::ToMaster message;
    message.mutable_prepared_revoked()->set_peer(peers_[connection]);
    message.mutable_prepared_revoked()->set_epoch(epoch);
    Say(connection, message);
  }
  bool Disturbed(std::initializer_list<std::uint64_t> connections) {
    return std::any_of(connections.begin(), connections.end(), [&](std::uint64_t connection) {
      return Has(connection, &control::FromMaster::has_abort) || Has(connection, &control::FromMaster::has_evicted);
    });
  }
};

// ---------------------------------------------------------------------------------------------- silence

TEST_F(CutOffTest, MembersThatOnlyTheMasterDoesNotHearStayForAnyTime) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Wait(100 * kDetect, {1});
  EXPECT_FALSE(Disturbed({1, 2, 3, 4}));
  Return({2, 3, 4});
  Wait(kDetect, {1, 2, 3, 4});
  EXPECT_FALSE(Disturbed({1, 2, 3, 4}));
  EXPECT_EQ(TheGroup().current().epoch(), epoch);
}

TEST_F(CutOffTest, GroupOfWhichNobodyIsHeardStaysForAnHour) {
  Form(3);
  Lose({1, 2, 3}, Contact::kClosed);
  Wait(std::chrono::minutes(59), {});
  ASSERT_TRUE(coordinator_->groups().contains("g"));
  Return({1, 2, 3});
  Wait(kDetect, {1, 2, 3});
  EXPECT_FALSE(Disturbed({1, 2, 3}));
  Lose({1, 2, 3});
  Wait(std::chrono::minutes(61), {});
  EXPECT_FALSE(coordinator_->groups().contains("g"));
  EXPECT_TRUE(journal_.empty() || !coordinator_->options().journaled);
}

TEST_F(CutOffTest, FewThatAreUnheardInARecoveryAreDroppedAfterTheTimeToConnectAgain) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Lose({3, 4});
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  Wait(kDetect + kBack - std::chrono::milliseconds(500), {1, 2});
  EXPECT_EQ(ViewOf(1).members_size(), 4);
  Wait(std::chrono::milliseconds(500), {1, 2});
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(CutOffTest, SilenceIsBorneForLongerBetweenSitesAndOverLongRoundTrips) {
  const auto detection = [&](Duration round_trip, const std::string& site) {
    sites_[2] = site;
    FormAfresh({.detect_far_ms = 10'000}, round_trip);
    return ViewOf(1).plan().detect_ms();
  };
  EXPECT_EQ(detection({}, ""), 3000u);
  EXPECT_EQ(detection(kFarRoundTrip - Duration(1), ""), 3000u);
  EXPECT_EQ(detection(kFarRoundTrip, ""), 10'000u);
  EXPECT_EQ(detection({}, "eu"), 10'000u);
}

TEST_F(CutOffTest, SegmentsAreShorterWherePathsAreLong) {
  Form(3);
  EXPECT_EQ(ViewOf(1).plan().segment_bytes_max(), CoordinatorOptions().segment_bytes_max);
  FormAfresh({}, kFarRoundTrip);
  EXPECT_EQ(ViewOf(1).plan().segment_bytes_max(), 96u * 1024);
}

TEST_F(CutOffTest, WhereSilenceIsBorneForLongerARecoveryWaitsForLonger) {
  coordinator_.emplace(CoordinatorOptions{.detect_far_ms = 10'000});
  sites_[1] = "eu";
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Lose({3, 4});
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  Wait(std::chrono::seconds(10) + kBack - std::chrono::milliseconds(500), {1, 2});
  EXPECT_EQ(ViewOf(1).members_size(), 4);
  Wait(std::chrono::milliseconds(500), {1, 2});
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(CutOffTest, MostThatAreUnheardInARecoveryAreAwaitedForTheGrace) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Lose({2, 3, 4});
  Say(1, Report(1, epoch, {2, 3, 4}));  // it may be the one that is cut off, with the master
  Wait(kGrace - std::chrono::seconds(1), {1});
  ASSERT_EQ(TheGroup().current().epoch(), epoch);
  Return({2, 3, 4});
  for (const std::uint64_t i : {2, 3, 4}) Say(i, Report(i, epoch, {1}));
  Advance(kWeigh);
  EXPECT_EQ(ViewOf(2).members_size(), 3);
  EXPECT_TRUE(Has(1, &control::FromMaster::has_evicted));
}

TEST_F(CutOffTest, MostThatStayUnheardInARecoveryAreDroppedAfterTheGrace) {
  Form(4);
  Lose({2, 3, 4});
  Say(1, Report(1, ViewOf(1).epoch(), {2, 3, 4}));
  Wait(kGrace + std::chrono::seconds(1), {1});
  EXPECT_EQ(ViewOf(1).members_size(), 1);
}

TEST_F(CutOffTest, AccusedWhoseHostEndedTheConnectionAreDroppedAtOnceHoweverMany) {
  Form(4);
  Lose({2, 3, 4}, Contact::kClosed);
  Say(1, Report(1, ViewOf(1).epoch(), {2, 3, 4}));
  EXPECT_EQ(ViewOf(1).members_size(), 1);
}

TEST_F(CutOffTest, NoTimePassesForARecoveryWhileNobodyIsHeard) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch, {4}));
  Lose({1, 2, 3, 4});
  Wait(10 * kGrace, {});
  ASSERT_EQ(TheGroup().current().epoch(), epoch);
  for (const std::uint64_t i : {1, 2, 3}) {
    Return({i});
    Say(i, Report(i, epoch, {4}));
    EXPECT_EQ(ViewOf(1).epoch(), epoch) << "the others are on their way";
    Wait(std::chrono::milliseconds(500), {1, 2, 3});
  }
  Wait(kDetect + kBack, {1, 2, 3});
  EXPECT_EQ(ViewOf(1).members_size(), 3);
  EXPECT_FALSE(Has(2, &control::FromMaster::has_evicted));
}

// ---------------------------------------------------------------------------------------------- other processes

TEST_F(CutOffTest, MemberWhoseDaemonIsBackAsAnotherProcessIsDropped) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Lose({3});
  Replace(3);
  ASSERT_TRUE(Has(1, &control::FromMaster::has_abort));
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(CutOffTest, SuccessorThatComesBeforeTheEndIsNoticedReplacesItThen) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  peers_[7] = peers_[2];
  control::ToMaster message;
  message.mutable_hello()->set_version_min(kProtocolVersionMax);
  message.mutable_hello()->set_version_max(kProtocolVersionMax);
  message.mutable_hello()->set_name("other");
  message.mutable_hello()->set_address("d2.example:1");
  message.mutable_hello()->set_instance(77);
  Say(7, message);
  EXPECT_FALSE(Has(1, &control::FromMaster::has_abort)) << "two daemons may say the same address";
  Lose({2});
  Say(1, Report(1, epoch));
  EXPECT_EQ(ViewOf(1).members_size(), 1);
}

TEST_F(CutOffTest, GroupOfWhichAllDaemonsAreOtherProcessesIsNoMore) {
  Form(2);
  Lose({1, 2}, Contact::kClosed);
  Replace(1);
  Replace(2);
  EXPECT_FALSE(coordinator_->groups().contains("g"));
}

// ---------------------------------------------------------------------------------------------- newcomers

TEST_F(CutOffTest, NewcomerThatWithdrawsDisturbsNobody) {
  Form(3);
  const std::uint64_t prepared = Newcomer(4, {1, 2, 3});
  ASSERT_NE(prepared, 0u);
  Withdraw(4);
  for (const std::uint64_t i : {1, 2, 3}) {
    const auto* back = Last(i, &control::FromMaster::has_revoke_prepared);
    ASSERT_NE(back, nullptr);
    EXPECT_EQ(back->revoke_prepared().epoch(), prepared);
  }
  for (const std::uint64_t i : {1, 2, 3}) PreparedRevoked(i, prepared);
  EXPECT_EQ(TheGroup().NewestPrepared(), Epoch());
  EXPECT_FALSE(Disturbed({1, 2, 3}));
  EXPECT_EQ(TheGroup().peers().size(), 3u);
}

TEST_F(CutOffTest, NoViewIsPreparedBeforeAllHaveTakenBackTheLast) {
  Form(2);
  const std::uint64_t first = Newcomer(3, {1, 2});
  Withdraw(3);
  EXPECT_EQ(Newcomer(4, {1, 2}), 0u);
  PreparedRevoked(1, first);
  EXPECT_EQ(Last(4, &control::FromMaster::has_view), nullptr);
  PreparedRevoked(2, first - 1);
  EXPECT_EQ(Last(4, &control::FromMaster::has_view), nullptr) << "an answer to something else";
  PreparedRevoked(2, first);
  ASSERT_NE(Last(4, &control::FromMaster::has_view), nullptr);
  EXPECT_GT(Last(4, &control::FromMaster::has_view)->view().view().epoch(), first);
}

TEST_F(CutOffTest, SilentNewcomerIsForgottenOnlyWhenTheMembersHaveNotAdoptedIt) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  Lose({1, 2, 3});
  Wait(10 * kDetect, {});
  EXPECT_TRUE(TheGroup().peers().contains(PeerId(peers_[3])));
  Return({1, 2, 3});
  Installed(1, prepared);  // while nobody listened
  EXPECT_EQ(TheGroup().current().epoch(), prepared);
  EXPECT_EQ(TheGroup().current().members_size(), 3);
  Wait(kDetect, {1, 2, 3});
  EXPECT_FALSE(Disturbed({1, 2, 3}));
}

TEST_F(CutOffTest, ViewThatWasAdoptedWhileItWasTakenBackIsRecoveredFrom) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  Withdraw(3);
  Installed(2, prepared);
  ASSERT_TRUE(Has(1, &control::FromMaster::has_abort)) << "it contains one that is gone";
  control::ToMaster report = Report(1, prepared);
  report.mutable_report()->set_epoch(prepared);
  Say(1, report);
  report.mutable_report()->set_peer(peers_[2]);
  Say(2, report);
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_GT(ViewOf(1).epoch(), prepared);
}

TEST_F(CutOffTest, MemberThatReconnectsIsAskedAgainToTakeBack) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  Withdraw(3);
  PreparedRevoked(1, prepared);
  Lose({2});
  inbox_[2].clear();
  Return({2});
  ASSERT_TRUE(Has(2, &control::FromMaster::has_revoke_prepared));
  const auto is_void = [](const control::FromMaster& m) { return m.has_view() && m.view().prepared(); };
  EXPECT_TRUE(std::none_of(inbox_[2].begin(), inbox_[2].end(), is_void));
  PreparedRevoked(2, prepared);
  EXPECT_EQ(TheGroup().NewestPrepared(), Epoch());
}

}  // namespace
}  // namespace ringway
