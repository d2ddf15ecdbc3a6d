#include "master/coordination/coordinator.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

TEST_F(CoordinatorTest, VersionsThatDoNotMeetAreRefusedWithBothRanges) {
  control::ToMaster message;
  message.mutable_hello()->set_version_min(kProtocolVersionMax + 1);
  message.mutable_hello()->set_version_max(kProtocolVersionMax + 2);
  Say(1, message);
  const auto* refusal = Last(1, &control::FromMaster::has_refusal);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(static_cast<Code>(refusal->refusal().code()), Code::kVersionMismatch);
  const std::string range = std::to_string(kProtocolVersionMax + 1) + " to " + std::to_string(kProtocolVersionMax + 2);
  EXPECT_NE(refusal->refusal().text().find(range), std::string::npos);
  EXPECT_TRUE(closed_.contains(1));
}

TEST_F(CoordinatorTest, WordsBeforeHelloAreRefused) {
  control::ToMaster message;
  message.mutable_join()->set_group("g");
  Say(5, message);
  EXPECT_TRUE(closed_.contains(5));
}

TEST_F(CoordinatorTest, DaemonNameInUseIsRefusedUntilItsOwnerIsGone) {
  Hello(1, "host", 11);
  Hello(2, "host", 22);
  EXPECT_NE(Last(2, &control::FromMaster::has_refusal), nullptr);
  coordinator_->OnDisconnect(1, Contact::kClosed, now_);
  Hello(3, "host", 33);
  EXPECT_NE(Last(3, &control::FromMaster::has_hello_reply), nullptr);
}

TEST_F(CoordinatorTest, PeerNameInUseGroupNameAndPolicyAreChecked) {
  ASSERT_NE(Join(1, 4, "g", false, "same"), 0u);
  EXPECT_EQ(Join(2, 4, "g", false, "same"), 0u);
  const std::string in_use = Last(2, &control::FromMaster::has_join_refused)->join_refused().text();
  for (const char* part : {"named same", "another name", "before a restart", "(3.0 s)"}) {
    EXPECT_NE(in_use.find(part), std::string::npos) << in_use;
  }
  EXPECT_EQ(Join(3, 4, ""), 0u);
  EXPECT_EQ(Join(4, 4, std::string(500, 'x')), 0u);
  EXPECT_EQ(Join(5, 65, "h"), 0u);
  EXPECT_EQ(Join(6, 4, "g", true), 0u);
  EXPECT_TRUE(coordinator_->groups().size() == 1u) << "refused joins leave no group behind";
}

TEST_F(CoordinatorTest, NamesWithControlCharactersAreRefused) {
  EXPECT_EQ(Join(1, 1, "g", false, "x\n2026-01-01 error forged"), 0u);
  EXPECT_EQ(Join(1, 1, "g\x1b[2J"), 0u);
  EXPECT_NE(Join(1, 1, "g", false, "zu\xCC\x88rich 1"), 0u);
  Hello(2, "d\n", 2);
  EXPECT_NE(Last(2, &control::FromMaster::has_refusal), nullptr);
}

TEST_F(CoordinatorTest, GroupFormsWhenAsManyAsWaitedForStandTogether) {
  peers_[1] = Join(1, 2);
  EXPECT_EQ(PendingText(1), "1 of 2 peers are here");
  peers_[2] = Join(2, 2);
  EXPECT_EQ(ViewOf(1).epoch(), 0u);
  control::ToMaster half;  // one side alone does not make a pair stand
  half.mutable_connected()->set_peer(peers_[1]);
  half.mutable_connected()->set_other(peers_[2]);
  Say(1, half);
  EXPECT_EQ(ViewOf(1).epoch(), 0u);
  Connect(1, 2);
  EXPECT_EQ(ViewOf(1).epoch(), Epoch::Of(1, 1).value);
  EXPECT_EQ(ViewOf(2).members_size(), 2);
}

TEST_F(CoordinatorTest, ForgedPeerIdsChangeNothing) {
  Form(2);
  Join(9, 1, "other");
  control::ToMaster forged = Report(1, ViewOf(1).epoch(), {2});
  const std::uint64_t before = coordinator_->ignored_messages();
  Say(9, forged);
  EXPECT_EQ(coordinator_->ignored_messages(), before + 1);
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort), nullptr);
  forged.mutable_report()->set_peer(12345);
  Say(9, forged);
  EXPECT_EQ(coordinator_->ignored_messages(), before + 2);
}

TEST_F(CoordinatorTest, LossLeadsToAbortReportsAndAViewOfTheSurvivors) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  coordinator_->OnDisconnect(3, Contact::kClosed, now_);
  Say(1, Report(1, epoch, {3}));
  ASSERT_NE(Last(2, &control::FromMaster::has_abort), nullptr);
  EXPECT_EQ(Last(2, &control::FromMaster::has_abort)->abort().epoch(), epoch);
  EXPECT_EQ(ViewOf(1).epoch(), epoch) << "not before everybody who stays has reported";
  Say(2, Report(2, epoch));
  EXPECT_GT(ViewOf(1).epoch(), epoch);
  EXPECT_EQ(ViewOf(2).members_size(), 2);
}

TEST_F(CoordinatorTest, ContradictingReportsAreWeighedNotFirstComeFirstServed) {
  Form(4);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(4, Report(4, epoch, {1, 2, 3}));  // it is 4 that is cut off
  EXPECT_EQ(ViewOf(4).epoch(), epoch);
  for (const std::uint64_t i : {1, 2, 3}) Say(i, Report(i, epoch, {4}));
  EXPECT_EQ(ViewOf(1).members_size(), 3);
  ASSERT_NE(Last(4, &control::FromMaster::has_evicted), nullptr);
}

// 5 is dead, and nobody has noticed yet; 1 and 2 die after they have reported. 3 notices first, by a moment.
TEST_F(CoordinatorTest, LateAccusationIsWeighedWithThoseThatFollowIt) {
  Form(5);
  const std::uint64_t epoch = ViewOf(3).epoch();
  control::ToMaster cancel = Report(1, epoch);
  cancel.mutable_report()->add_ops()->set_cancel(true);
  Say(1, cancel);
  for (const std::uint64_t i : {2, 3, 4}) Say(i, Report(i, epoch));
  Advance(kDetect - std::chrono::milliseconds(100));
  Say(3, Report(3, epoch, {1, 2, 5}));
  EXPECT_EQ(ViewOf(3).epoch(), epoch) << "so far it is 3 that disagrees with most";
  Say(4, Report(4, epoch, {1, 2, 5}));
  Advance(kWeigh);
  EXPECT_EQ(Last(3, &control::FromMaster::has_evicted), nullptr);
  EXPECT_EQ(Last(4, &control::FromMaster::has_evicted), nullptr);
  EXPECT_EQ(ViewOf(3).members_size(), 2);
}

TEST_F(CoordinatorTest, AccusedThatConnectsAgainAndAgainIsWaitedForOnlyAWhile) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch, {3}));
  Say(2, Report(2, epoch));
  for (std::uint64_t back = 10; back < 20 && ViewOf(1).epoch() == epoch; ++back) {
    coordinator_->OnDisconnect(back == 10 ? 3 : back - 1, Contact::kSilent, now_);
    Collect();
    Advance(kWeigh / 2);
    Hello(back, "d3", 3);
  }
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(CoordinatorTest, AccusedThatStaysSilentIsWaitedForOnlyAWhile) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch, {3}));
  Say(2, Report(2, epoch));
  EXPECT_EQ(ViewOf(1).epoch(), epoch);
  Advance(kWeigh);
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(CoordinatorTest, LateReportOfAnOldEpochWithoutNewsStartsNothing) {
  Form(3);
  const std::uint64_t old = ViewOf(1).epoch();
  coordinator_->OnDisconnect(3, Contact::kClosed, now_);
  Say(1, Report(1, old, {3}));
  Say(2, Report(2, old));
  const std::uint64_t epoch = ViewOf(1).epoch();
  ASSERT_GT(epoch, old);
  Say(2, Report(2, old, {3}));
  Heartbeats({1, 2});
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort)->abort().epoch(), old);
  EXPECT_EQ(ViewOf(1).epoch(), epoch);
}

TEST_F(CoordinatorTest, LateAccusationBetweenMembersIsStillValid) {
  Form(3);
  const std::uint64_t old = ViewOf(1).epoch();
  for (const std::uint64_t i : {1, 2, 3}) Say(i, Report(i, old));
  const std::uint64_t epoch = ViewOf(1).epoch();
  ASSERT_GT(epoch, old);
  control::ToMaster late = Report(1, old, {3});
  Say(1, late);
  EXPECT_EQ(Last(2, &control::FromMaster::has_abort)->abort().epoch(), epoch);
}

TEST_F(CoordinatorTest, MemberThatDoesNotAnswerTheAbortIsDropped) {
  Form(3);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch));
  Say(3, Report(3, epoch));
  Wait(kDetect + kBack, {1, 2, 3});
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_NE(Last(2, &control::FromMaster::has_evicted), nullptr);
}

TEST_F(CoordinatorTest, ReconnectOfTheSameProcessKeepsItsPeers) {
  Form(2);
  coordinator_->OnDisconnect(2, Contact::kClosed, now_);
  Advance(kDetect / 2);
  Hello(20, "d2", 2);
  Advance(kDetect / 2 + std::chrono::milliseconds(200));
  Heartbeats({1, 20});
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort), nullptr);
}

TEST_F(CoordinatorTest, AnotherProcessOnTheHostUnderTheNameReplacesTheOneThatIsGone) {
  Form(2);
  coordinator_->OnDisconnect(2, Contact::kClosed, now_);
  Hello(20, "d2", 20, "d2.example:7");
  EXPECT_NE(Last(1, &control::FromMaster::has_abort), nullptr);
}

TEST_F(CoordinatorTest, HostOfTheSameNameElsewhereReplacesNobody) {
  Form(2);
  coordinator_->OnDisconnect(2, Contact::kClosed, now_);
  Hello(20, "d2", 20, "elsewhere.example:1");
  Heartbeats({1, 20});
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort), nullptr);
}

TEST_F(CoordinatorTest, LeaverIsDroppedWithItsOwnCodeAndFailsNothing) {
  Form(3, /*fail_on_peer_loss=*/true);
  const std::uint64_t epoch = ViewOf(1).epoch();
  control::ToMaster leave = Report(3, epoch);
  leave.mutable_report()->set_leaving(true);
  Say(3, leave);
  control::ToMaster running = Report(1, epoch);
  running.mutable_report()->add_ops()->set_seq(1);
  Say(1, running);
  Say(2, Report(2, epoch));
  EXPECT_EQ(static_cast<Code>(Last(3, &control::FromMaster::has_evicted)->evicted().code()), Code::kLeft);
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(ViewOf(1).verdicts_size(), 0);
}

TEST_F(CoordinatorTest, NewcomerIsPreparedOnlyWhenItStandsWithAllAndJoinsWhenMembersSwitch) {
  Form(2);
  peers_[3] = Join(3, 1);
  Connect(3, 1);
  EXPECT_EQ(Last(1, &control::FromMaster::has_view)->view().prepared(), false);
  Connect(3, 2);
  const control::ViewFor prepared = Last(1, &control::FromMaster::has_view)->view();
  ASSERT_TRUE(prepared.prepared());
  EXPECT_EQ(prepared.view().members_size(), 3);
  EXPECT_NE(PendingText(3).find("UpdateView"), std::string::npos);
  control::ToMaster installed;
  installed.mutable_installed()->set_peer(peers_[1]);
  installed.mutable_installed()->set_epoch(prepared.view().epoch());
  Say(1, installed);
  EXPECT_EQ(coordinator_->groups().at("g")->current().members_size(), 3);
}

TEST_F(CoordinatorTest, SecondNewcomerExtendsThePreparedView) {
  Form(2);
  peers_[3] = Join(3, 1);
  Connect(3, 1);
  Connect(3, 2);
  const std::uint64_t first = Last(1, &control::FromMaster::has_view)->view().view().epoch();
  peers_[4] = Join(4, 1);
  for (const std::uint64_t i : {1, 2, 3}) Connect(4, i);
  const control::View second = Last(1, &control::FromMaster::has_view)->view().view();
  EXPECT_GT(second.epoch(), first);
  EXPECT_EQ(second.members_size(), 4);
}

// They come while a recovery runs. The first of them does not reach the others.
TEST_F(CoordinatorTest, AsManyNewcomersArePreparedAsReachEachOther) {
  Form(2);
  control::ToMaster cancel = Report(1, ViewOf(1).epoch());
  cancel.mutable_report()->add_ops()->set_cancel(true);
  Say(1, cancel);
  for (const std::uint64_t i : {3, 4, 5}) {
    peers_[i] = Join(i, 1);
    Connect(i, 1);
    Connect(i, 2);
  }
  Connect(4, 5);
  CannotReach(4, 3, "no route");
  Say(2, Report(2, ViewOf(2).epoch()));
  const control::ViewFor prepared = Last(1, &control::FromMaster::has_view)->view();
  ASSERT_TRUE(prepared.prepared());
  EXPECT_EQ(prepared.view().members_size(), 4);
  EXPECT_FALSE(Has(3, &control::FromMaster::has_view));
  EXPECT_NE(PendingText(3).find("no route"), std::string::npos) << PendingText(3);
}

TEST_F(CoordinatorTest, LossBeforeTheSwitchLeavesTheNewcomerOutsideAndPreparesItAnew) {
  Form(3);
  peers_[4] = Join(4, 1);
  for (const std::uint64_t i : {1, 2, 3}) Connect(4, i);
  const std::uint64_t prepared = Last(1, &control::FromMaster::has_view)->view().view().epoch();
  coordinator_->OnDisconnect(3, Contact::kClosed, now_);
  Say(1, Report(1, prepared, {3}));
  Say(2, Report(2, prepared));
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(ViewOf(4).epoch(), 0u);
  const control::ViewFor again = Last(4, &control::FromMaster::has_view)->view();
  EXPECT_TRUE(again.prepared());
  EXPECT_GT(again.view().epoch(), ViewOf(1).epoch());
}

TEST_F(CoordinatorTest, LossAfterAMemberSwitchedTakesTheNewcomerAlong) {
  Form(3);
  peers_[4] = Join(4, 1);
  for (const std::uint64_t i : {1, 2, 3}) Connect(4, i);
  const std::uint64_t prepared = Last(1, &control::FromMaster::has_view)->view().view().epoch();
  coordinator_->OnDisconnect(3, Contact::kClosed, now_);
  control::ToMaster switched = Report(1, prepared, {3});
  switched.mutable_report()->set_epoch(prepared);
  Say(1, switched);
  Say(2, Report(2, prepared));
  EXPECT_EQ(ViewOf(4).epoch(), 0u) << "the newcomer is a member now: its report is needed too";
  Say(4, Report(4, prepared));
  EXPECT_EQ(ViewOf(4).members_size(), 3);
}

// It went while the master, or the daemon's connection to it, was away.
TEST_F(CoordinatorTest, WhoCannotReachAPeerThatIsNoMoreMustForgetIt) {
  Form(2);
  constexpr std::uint64_t kGone = 999;
  control::ToMaster message;
  message.mutable_dial_failed()->set_peer(peers_[1]);
  message.mutable_dial_failed()->set_other(kGone);
  Say(1, message);
  const control::FromMaster* forget = Last(1, &control::FromMaster::has_forget);
  ASSERT_NE(forget, nullptr);
  EXPECT_EQ(forget->forget().others(0), kGone);
}

TEST_F(CoordinatorTest, UnreachableNewcomerLearnsWhoCannotReachItAndWhere) {
  Form(2);
  peers_[3] = Join(3, 1);
  CannotReach(1, 3, "connection timed out");
  EXPECT_NE(PendingText(3).find("p1 (d1.example:1) cannot reach p3"), std::string::npos) << PendingText(3);
  EXPECT_NE(PendingText(3).find("connection timed out"), std::string::npos);
  EXPECT_EQ(Last(1, &control::FromMaster::has_abort), nullptr);
}

// Four peers each wait for three. The first to join advertises an address where nobody answers.
TEST_F(CoordinatorTest, FirstJoinerWhomNobodyReachesHoldsNobodyUpAndLearnsWhy) {
  for (const std::uint64_t i : {1, 2, 3, 4}) peers_[i] = Join(i, 3);
  for (const std::uint64_t i : {2, 3, 4}) CannotReach(i, 1, "connection refused");
  Connect(2, 3);
  Connect(3, 4);
  EXPECT_EQ(ViewOf(2).epoch(), 0u) << "2 and 4 do not stand yet";
  Connect(2, 4);
  for (const std::uint64_t i : {2, 3, 4}) EXPECT_EQ(ViewOf(i).members_size(), 3);
  const control::Pending& left_out = Last(1, &control::FromMaster::has_pending)->pending();
  EXPECT_EQ(static_cast<Code>(left_out.code()), Code::kPeerUnreachable);
  EXPECT_NE(left_out.text().find("p2 (d2.example:1) cannot reach p1 (d1.example:1): connection refused"),
            std::string::npos)
      << left_out.text();
  EXPECT_NE(left_out.text().find("goes on without p1"), std::string::npos) << left_out.text();
  for (const std::uint64_t i : {2, 3, 4}) Connect(1, i);
  const control::ViewFor prepared = Last(1, &control::FromMaster::has_view)->view();
  EXPECT_TRUE(prepared.prepared()) << "reachable at last";
  EXPECT_EQ(prepared.view().members_size(), 4);
}

TEST_F(CoordinatorTest, GroupThatWaitsForTheUnreachableOneLearnsWhomItWaitsFor) {
  for (const std::uint64_t i : {1, 2, 3}) peers_[i] = Join(i, 3);
  for (const std::uint64_t i : {2, 3}) CannotReach(i, 1, "connection refused");
  Connect(2, 3);
  EXPECT_EQ(ViewOf(2).epoch(), 0u) << "they asked for three";
  for (const std::uint64_t i : {1, 2, 3}) {
    const control::Pending& pending = Last(i, &control::FromMaster::has_pending)->pending();
    EXPECT_EQ(static_cast<Code>(pending.code()), Code::kPeerUnreachable);
    EXPECT_NE(pending.text().find("cannot reach p1"), std::string::npos) << pending.text();
  }
}

TEST_F(CoordinatorTest, LargestSetThatStandsBecomesTheFirstView) {
  for (const std::uint64_t i : {1, 2, 3, 4, 5}) peers_[i] = Join(i, 3);
  Connect(1, 2);
  for (const auto& [a, b] : {std::pair(3, 4), std::pair(4, 5)}) Connect(a, b);
  EXPECT_EQ(ViewOf(4).epoch(), 0u);
  Connect(3, 5);
  EXPECT_EQ(ViewOf(4).members_size(), 3);
  EXPECT_EQ(ViewOf(1).epoch(), 0u);
  EXPECT_EQ(PendingText(1), "opening links to the members");
}

TEST_F(CoordinatorTest, NewcomerIsNotCalledUnreachableForAnotherNewcomersSake) {
  Form(2);
  peers_[3] = Join(3, 1);
  peers_[4] = Join(4, 1);
  CannotReach(4, 3, "connection refused");
  const auto code = [&] { return static_cast<Code>(Last(4, &control::FromMaster::has_pending)->pending().code()); };
  EXPECT_EQ(code(), Code::kOk) << PendingText(4);
  for (const std::uint64_t i : {1, 2}) Connect(3, i);
  EXPECT_EQ(code(), Code::kPeerUnreachable) << "3 is in the next view: " << PendingText(4);
}

TEST_F(CoordinatorTest, GroupsAreIndependentAndEpochsNeverRepeat) {
  Form(2);
  peers_[7] = Join(7, 1, "other");
  EXPECT_GT(ViewOf(7).epoch(), ViewOf(1).epoch());
  const std::size_t before = inbox_[7].size();
  Say(1, Report(1, ViewOf(1).epoch(), {2}));
  EXPECT_EQ(inbox_[7].size(), before);
}

TEST_F(CoordinatorTest, EmptiedGroupIsForgotten) {
  Form(1);
  control::ToMaster withdraw;
  withdraw.mutable_withdraw()->set_peer(peers_[1]);
  Say(1, withdraw);
  Say(1, Report(1, ViewOf(1).epoch()));
  Advance(std::chrono::milliseconds(20));
  EXPECT_TRUE(coordinator_->groups().empty());
}

}  // namespace
}  // namespace ringway
