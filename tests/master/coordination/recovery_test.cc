// Recoveries in which messages get lost, accusations and adopted views cross, or somebody lies.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include "master/coordination/status.h"
#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

class RecoveryTest : public CoordinatorTest {
 protected:
  void Disconnect(std::uint64_t connection) {
    coordinator_->OnDisconnect(connection, Contact::kClosed, now_);
    Collect();
  }

  // The daemon of connection `old` on a new connection.
  void Reconnect(std::uint64_t old, std::uint64_t connection) {
    Hello(connection, "d" + std::to_string(old), old);
    peers_[connection] = peers_[old];
  }

  // A report that holds the outcome of the UpdateView which adopted `prepared`.
  control::ToMaster WithUpdate(control::ToMaster message, std::uint64_t prepared, std::uint64_t next,
                               std::uint64_t seq = 1) {
    control::OpReport& op = *message.mutable_report()->add_ops();
    op.set_seq(seq);
    op.set_stage(control::OP_STAGE_COMPLETE);
    op.set_result_epoch(ViewOf(1).epoch());
    op.set_prepared_epoch(prepared);
    op.set_update_view(true);
    op.add_next_seq()->set_seq(next);
    return message;
  }

  Code EvictedCode(std::uint64_t connection) {
    const auto* evicted = Last(connection, &control::FromMaster::has_evicted);
    return evicted == nullptr ? Code::kOk : static_cast<Code>(evicted->evicted().code());
  }
};

// ---------------------------------------------------------------------------------------------- lost messages

TEST_F(RecoveryTest, ViewLostWithItsConnectionIsSentAgainOnReconnect) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Disconnect(3);
  Say(1, Report(1, epoch, {3}));
  Disconnect(2);
  Reconnect(2, 20);
  Say(20, Report(20, epoch));  // its view goes to a connection that is dead without the master's knowing
  ASSERT_GT(ViewOf(1).epoch(), epoch);
  Reconnect(2, 21);
  EXPECT_TRUE(closed_.contains(20)) << "the old connection is closed";
  EXPECT_EQ(ViewOf(21).epoch(), ViewOf(1).epoch());
  EXPECT_TRUE(Has(21, &control::FromMaster::has_candidates));
}

TEST_F(RecoveryTest, AbortIsSentAgainToAMemberThatReconnectsDuringACollection) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Disconnect(2);
  Say(1, Report(1, epoch));
  Say(3, Report(3, epoch));
  EXPECT_EQ(ViewOf(1).epoch(), epoch) << "a member whose connection is down is waited for";
  Reconnect(2, 20);
  ASSERT_TRUE(Has(20, &control::FromMaster::has_abort));
  Say(20, Report(20, epoch));
  EXPECT_EQ(ViewOf(1).members_size(), 3);
}

TEST_F(RecoveryTest, TheRingOfTheSurvivorsIsTheOneTheyHadWithoutThoseWhoAreGone) {
  for (std::uint64_t i = 1; i <= 4; ++i) peers_[i] = Join(i, 4);
  for (std::uint64_t a = 1; a <= 4; ++a) {
    for (std::uint64_t b = 1; b <= 4; ++b) {
      if (a == b) continue;
      const bool far = (a - 1) / 2 == (b - 1) / 2;  // 1 from 2, and 3 from 4
      control::ToMaster message;
      message.mutable_connected()->set_peer(peers_[a]);
      message.mutable_connected()->set_other(peers_[b]);
      message.mutable_connected()->set_round_trip_us(far ? 300'000 : 10'000);
      Say(a, message);
    }
  }
  ASSERT_EQ(RingOf(ViewOf(1)), (std::vector<std::uint32_t>{0, 2, 1, 3}));
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch, {4}));
  Say(2, Report(2, epoch, {4}));
  Say(3, Report(3, epoch, {4}));
  Advance(kDetect);
  ASSERT_EQ(ViewOf(1).members_size(), 3);
  EXPECT_EQ(RingOf(ViewOf(1)), (std::vector<std::uint32_t>{0, 2, 1})) << "0 1 2 would be as good, and another";
}

TEST_F(RecoveryTest, PreparedViewAndReasonAreSentAgainToAPendingThatReconnects) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  ASSERT_NE(prepared, 0u);
  Disconnect(3);
  Reconnect(3, 30);
  const auto* view = Last(30, &control::FromMaster::has_view);
  ASSERT_NE(view, nullptr);
  EXPECT_TRUE(view->view().prepared());
  EXPECT_EQ(view->view().view().epoch(), prepared);
  EXPECT_NE(PendingText(30).find("UpdateView"), std::string::npos);
}

TEST_F(RecoveryTest, ViewThatMembersAdoptedIsSentAgainAsPreparedOnly) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  Installed(1, prepared);
  Disconnect(2);
  Reconnect(2, 20);  // it may be about to adopt the view itself: only UpdateView's outcome says when
  const auto* view = Last(20, &control::FromMaster::has_view);
  ASSERT_NE(view, nullptr);
  EXPECT_TRUE(view->view().prepared());
  EXPECT_EQ(view->view().view().epoch(), prepared);
}

TEST_F(RecoveryTest, PeerDroppedWhileItsDaemonWasAwayLearnsItFromItsNextReport) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Disconnect(3);
  Say(1, Report(1, epoch, {3}));
  Say(2, Report(2, epoch, {3}));
  ASSERT_EQ(ViewOf(1).members_size(), 2);
  ASSERT_FALSE(Has(3, &control::FromMaster::has_evicted));
  Reconnect(3, 30);
  Say(30, Report(30, epoch));
  ASSERT_EQ(EvictedCode(30), Code::kEvicted);
  EXPECT_EQ(Last(30, &control::FromMaster::has_evicted)->evicted().peer(), peers_[3]);
}

TEST_F(RecoveryTest, ForgedReportIsAnsweredToTheLiarOnly) {
  Form(2);
  Join(9, 1, "other");
  control::ToMaster forged = Report(1, ViewOf(1).epoch(), {2});
  Say(9, forged);
  EXPECT_TRUE(Has(9, &control::FromMaster::has_evicted));
  EXPECT_FALSE(Has(1, &control::FromMaster::has_evicted));
  EXPECT_EQ(TheGroup().peers().size(), 2u);
}

// ---------------------------------------------------------------------------------------------- adopted views

TEST_F(RecoveryTest, HeldUpdateOutcomeAdoptsThePreparedViewAndSaysWhereNewcomersStart) {
  Form(3);
  const std::uint64_t prepared = Newcomer(4, {1, 2, 3});
  Disconnect(3);
  Say(1, WithUpdate(Report(1, prepared, {3}), prepared, 8));
  Say(2, Report(2, prepared));
  Say(4, Report(4, prepared));
  ASSERT_EQ(ViewOf(4).members_size(), 3);
  ASSERT_EQ(ViewOf(4).next_seq_size(), 1);
  EXPECT_EQ(ViewOf(4).next_seq(0).seq(), 8u);
}

TEST_F(RecoveryTest, OfTwoUpdatesTheOneThatAdoptedTheViewCounts) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  Installed(1, prepared);
  const std::uint64_t second = Newcomer(4, {1, 2, 3});
  ASSERT_GT(second, prepared);
  control::ToMaster report = WithUpdate(Report(1, second), second, 20, 9);
  *report.mutable_report() = WithUpdate(report, prepared, 8, 3).report();
  Say(1, report);  // both updates are still held: the newer one stands first
  Say(2, Report(2, second));
  Say(3, Report(3, second));
  Say(4, Report(4, second));
  ASSERT_EQ(ViewOf(4).next_seq_size(), 1);
  EXPECT_EQ(ViewOf(4).next_seq(0).seq(), 20u);
}

TEST_F(RecoveryTest, WitnessThatGoesTakesItsEvidenceAlong) {
  Form(3);
  const std::uint64_t prepared = Newcomer(4, {1, 2, 3});
  // 3 alone has switched, and all others have lost it.
  control::ToMaster switched = Report(3, prepared);
  switched.mutable_report()->set_epoch(prepared);
  Say(3, switched);
  Say(1, Report(1, prepared, {3}));
  Say(2, Report(2, prepared, {3}));
  Advance(kWeigh);  // what 4 says of 3 may be on its way
  EXPECT_EQ(ViewOf(1).members_size(), 2) << "from the old view, without the newcomer";
  EXPECT_EQ(ViewOf(4).epoch(), 0u);
  EXPECT_EQ(EvictedCode(3), Code::kEvicted);
}

TEST_F(RecoveryTest, MemberCondemnedInTheAdoptedViewDoesNotReturnThroughTheOldOne) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  // 1 has switched and everybody in the adopted view has lost it; among the members of the old view, 2 would go.
  control::ToMaster switched = Report(1, prepared, {2});
  switched.mutable_report()->set_epoch(prepared);
  Say(1, switched);
  Say(3, Report(3, prepared, {1}));
  Say(2, Report(2, prepared, {1}));
  EXPECT_EQ(EvictedCode(1), Code::kEvicted);
  EXPECT_EQ(EvictedCode(2), Code::kOk);
  EXPECT_EQ(ViewOf(2).members_size(), 1);
}

TEST_F(RecoveryTest, NewcomersAccusationsDoNotWeighBeforeTheyAreIn) {
  Form(1);
  ASSERT_NE(Newcomer(2, {1}), 0u);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  ASSERT_NE(prepared, 0u);
  Say(2, Report(2, prepared, {1}));
  Say(3, Report(3, prepared, {1}));
  Say(1, Report(1, prepared));
  ASSERT_EQ(ViewOf(1).members_size(), 1);
  EXPECT_EQ(EvictedCode(1), Code::kOk) << "two newcomers outweigh nobody";
  EXPECT_EQ(EvictedCode(2), Code::kEvicted) << "prepared anew they would only break the group again";
  EXPECT_EQ(EvictedCode(3), Code::kEvicted);
  EXPECT_FALSE(TheGroup().collecting());
}

TEST_F(RecoveryTest, MembersForgetANewcomerThatWasDroppedWithoutEverBeingIn) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  Say(1, Report(1, prepared, {3}));
  Say(2, Report(2, prepared));
  Say(3, Report(3, prepared));
  ASSERT_EQ(EvictedCode(3), Code::kEvicted);
  for (const std::uint64_t member : {1, 2}) {
    const auto* forget = Last(member, &control::FromMaster::has_forget);
    ASSERT_NE(forget, nullptr);
    EXPECT_EQ(forget->forget().others(0), peers_[3]);
  }
}

// ---------------------------------------------------------------------------------------------- losses on the way

TEST_F(RecoveryTest, LossDuringACollectionShrinksWhatIsWaitedFor) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch, {4}));
  Say(4, Report(4, epoch));
  Disconnect(3);
  Say(2, Report(2, epoch, {3}));
  Advance(kWeigh);  // what 2 says of 4 may be on its way
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(ViewOf(2).members_size(), 2);
}

TEST_F(RecoveryTest, ReportThatPromisedLessThanTheStopDecidesNothing) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  ASSERT_GT(prepared, epoch);
  Say(1, Report(1, epoch));  // frozen up to the old view: it might still switch to the prepared one
  Say(2, Report(2, prepared));
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort)->abort().epoch(), prepared);
  EXPECT_EQ(ViewOf(1).epoch(), epoch);
  Say(1, Report(1, prepared));
  EXPECT_GT(ViewOf(1).epoch(), prepared);
}

TEST_F(RecoveryTest, MemberThatWasDisconnectedForTheWholeTimeIsWaitedForAndDropped) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Disconnect(2);
  Wait(10 * kDetect, {1});
  Say(1, Report(1, epoch));
  Wait(kDetect, {1});
  EXPECT_EQ(ViewOf(1).members_size(), 2) << "it has time to connect again";
  Wait(kBack, {1});
  EXPECT_EQ(ViewOf(1).members_size(), 1);
}

TEST_F(RecoveryTest, AccusationOfOneWhoIsGoneCountsNoMore) {
  Form(4);
  const std::uint64_t first = ViewOf(2).epoch();
  Say(1, Report(1, first, {2}));
  for (const std::uint64_t other : {2, 3, 4}) Say(other, Report(other, first, {1}));
  const std::uint64_t second = ViewOf(4).epoch();
  ASSERT_EQ(ViewOf(4).members_size(), 3);
  Disconnect(2);
  Disconnect(3);
  Say(4, Report(4, second));
  Wait(kDetect + 2 * kBack, {4});
  EXPECT_EQ(ViewOf(4).epoch(), second) << "most are unheard, and none of them is accused: they have the grace";
}

TEST_F(RecoveryTest, LossInAFailOnLossGroupFailsOpenOperationsByName) {
  Form(3, /*fail_on_peer_loss=*/true);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Disconnect(3);
  control::ToMaster running = Report(1, epoch, {3});
  running.mutable_report()->add_ops()->set_seq(1);
  Say(1, running);
  Say(2, Report(2, epoch));
  ASSERT_EQ(ViewOf(1).verdicts_size(), 1);
  EXPECT_EQ(static_cast<Code>(ViewOf(1).verdicts(0).code()), Code::kPeerLost);
  EXPECT_NE(ViewOf(1).verdicts(0).text().find("p3"), std::string::npos) << ViewOf(1).verdicts(0).text();
}

TEST_F(RecoveryTest, ContradictingOutcomesAreCountedAndNeitherIsTaken) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  for (const std::uint64_t i : {1, 2}) {
    control::ToMaster report = Report(i, epoch);
    control::OpReport& op = *report.mutable_report()->add_ops();
    op.set_seq(1);
    op.set_stage(control::OP_STAGE_REPORTED);
    op.set_result_epoch(i);
    Say(i, report);
  }
  EXPECT_EQ(coordinator_->contradictions(), 1u);
}

// ---------------------------------------------------------------------------------------------- pendings

TEST_F(RecoveryTest, PendingThatWithdrawsHasLeftAndIsForgotten) {
  Form(2);
  Newcomer(3, {1});
  Withdraw(3);
  EXPECT_EQ(EvictedCode(3), Code::kLeft);
  EXPECT_TRUE(Has(1, &control::FromMaster::has_forget));
  EXPECT_EQ(TheGroup().peers().size(), 2u);
  EXPECT_FALSE(Has(1, &control::FromMaster::has_abort));
}

TEST_F(RecoveryTest, WithdrawOfAMemberIsLeaving) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Withdraw(2);
  Say(1, Report(1, epoch));
  EXPECT_EQ(EvictedCode(2), Code::kLeft);
  EXPECT_EQ(ViewOf(1).members_size(), 1);
}

TEST_F(RecoveryTest, NobodyIsPutIntoTheFirstViewWithoutAConnection) {
  for (const std::uint64_t i : {1, 2, 3}) peers_[i] = Join(i, 2);
  control::ToMaster half;
  half.mutable_connected()->set_peer(peers_[1]);
  half.mutable_connected()->set_other(peers_[2]);
  Say(1, half);
  half.mutable_connected()->set_peer(peers_[2]);
  half.mutable_connected()->set_other(peers_[1]);
  Disconnect(1);
  Say(2, half);
  EXPECT_EQ(ViewOf(2).epoch(), 0u);
  Connect(2, 3);
  ASSERT_EQ(ViewOf(2).members_size(), 2);
  EXPECT_EQ(ViewOf(2).members(0).peer_id(), peers_[2]);
}

TEST_F(RecoveryTest, PendingOfADaemonThatStaysAwayIsForgottenByTheOthers) {
  Form(2);
  Newcomer(3, {1});
  Disconnect(3);
  for (int i = 0; i < 8; ++i) {
    Advance(kDetect / 8);
    Heartbeats({1, 2});
  }
  EXPECT_TRUE(Has(1, &control::FromMaster::has_forget));
  EXPECT_EQ(TheGroup().peers().size(), 2u);
  EXPECT_NE(Join(6, 1, "g", false, "p3"), 0u) << "its name is free again";
}

// ---------------------------------------------------------------------------------------------- lies and bounds

// Else its group would wait for ever for one that no view is new enough for.
TEST_F(RecoveryTest, WhoStopsAboveEveryEpochEverMadeIsEvicted) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, ~std::uint64_t{0}));
  Say(2, Report(2, epoch));
  Say(3, Report(3, epoch));
  EXPECT_EQ(EvictedCode(1), Code::kEvicted);
  EXPECT_EQ(ViewOf(2).members_size(), 2);
}

TEST_F(RecoveryTest, GroupOfWhomAllStopAboveEveryEpochIsOver) {
  Form(2);
  Say(1, Report(1, ~std::uint64_t{0}));
  Say(2, Report(2, ~std::uint64_t{0}));
  EXPECT_EQ(EvictedCode(1), Code::kEvicted);
  EXPECT_EQ(EvictedCode(2), Code::kEvicted);
  EXPECT_TRUE(coordinator_->groups().empty());
}

TEST_F(RecoveryTest, ReportOfAPendingAndInstalledOfAnUnknownViewChangeNothing) {
  Form(2);
  Newcomer(3, {1});
  Say(3, Report(3, ViewOf(1).epoch(), {1, 2}));
  Installed(3, 12345);
  Installed(1, ViewOf(1).epoch() + 1);
  EXPECT_FALSE(TheGroup().collecting());
  EXPECT_EQ(TheGroup().current().members_size(), 2);
}

TEST_F(RecoveryTest, AccusingOneselfNobodyOrAStrangerDropsNobodyElse) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  peers_[77] = 987654321;
  peers_[78] = 0;
  Say(1, Report(1, epoch, {1, 77, 78}));
  Say(2, Report(2, epoch));
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(RecoveryTest, LongTextsFromDaemonsAreClipped) {
  Form(2);
  peers_[3] = Join(3, 1);
  control::ToMaster failed;
  failed.mutable_dial_failed()->set_peer(peers_[1]);
  failed.mutable_dial_failed()->set_other(peers_[3]);
  failed.mutable_dial_failed()->set_text(std::string(1 << 20, 'x'));
  Say(1, failed);
  EXPECT_LT(PendingText(3).size(), 1024u);
}

TEST_F(RecoveryTest, VerdictsThatFitNoFrameEndTheGroupNotTheMaster) {
  Form(2);
  const std::uint64_t epoch = ViewOf(1).epoch();
  control::ToMaster huge = Report(1, epoch);
  for (std::uint64_t seq = 1; seq <= 200000; ++seq) {
    control::OpReport& op = *huge.mutable_report()->add_ops();
    op.set_seq(seq);
    op.set_mismatch("a submitted something; b submitted something else");
  }
  Say(1, huge);
  Say(2, Report(2, epoch));
  EXPECT_EQ(EvictedCode(1), Code::kEvicted);
  EXPECT_EQ(EvictedCode(2), Code::kEvicted);
  EXPECT_TRUE(coordinator_->groups().empty());
}

TEST_F(RecoveryTest, DaemonCannotTakeMoreThanItsShareOfPeers) {
  for (int i = 0; i < 1024; ++i) ASSERT_NE(Join(1, 1, "g" + std::to_string(i)), 0u);
  const std::size_t groups = coordinator_->groups().size();
  Join(1, 1, "one-more");
  const auto* refused = Last(1, &control::FromMaster::has_join_refused);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(static_cast<Code>(refused->join_refused().code()), Code::kResourceExhausted);
  EXPECT_EQ(coordinator_->groups().size(), groups);
}

TEST_F(RecoveryTest, StatusKeepsItsBoundAndSaysWhatItLeavesOut) {
  for (int i = 0; i < 100; ++i) ASSERT_NE(Join(1, 1, "g" + std::to_string(i)), 0u);
  const std::string whole = StatusJson(*coordinator_, {.uptime = {}, .journal = "ok"}, 1 << 20);
  const std::string cut = StatusJson(*coordinator_, {.uptime = {}, .journal = "ok"}, 8192);
  EXPECT_NE(whole.find("\"left_out\":0"), std::string::npos);
  EXPECT_EQ(cut.find("\"left_out\":0"), std::string::npos);
  EXPECT_LE(cut.size(), 8192u);
  EXPECT_GT(whole.size(), cut.size());
}

}  // namespace
}  // namespace ringway
