#include "master/coordination/hung.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

#include <map>

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

// The state of one rank's trainer: operations that run, those of them that it waited for too long, and how many it has
// submitted by channel.
struct Trainer {
  std::vector<OpName> running;
  std::vector<OpName> hung;
  std::map<std::uint32_t, std::uint64_t> next;
};

control::Report ReportBy(const Trainer& trainer) {
  control::Report report;
  for (const OpName& name : trainer.running) {
    control::OpReport& op = *report.add_ops();
    op.set_channel(name.channel.value);
    op.set_seq(name.seq);
    op.set_stage(control::OP_STAGE_RUNNING);
    const bool hung = std::find(trainer.hung.begin(), trainer.hung.end(), name) != trainer.hung.end();
    for (std::uint64_t peer = 1; hung && peer <= 4; ++peer) op.add_hung_for(peer);
  }
  for (const auto& [channel, seq] : trainer.next) {
    control::ChannelSeq& next = *report.add_next_seq();
    next.set_channel(channel);
    next.set_seq(seq);
  }
  return report;
}

std::set<std::uint64_t> HungOf(const std::vector<Trainer>& trainers) {
  std::map<PeerId, control::Report> reports;
  for (const Trainer& trainer : trainers) reports[PeerId(reports.size() + 1)] = ReportBy(trainer);
  std::set<std::uint64_t> out;
  for (const PeerId peer : WhoHangs(reports)) out.insert(peer.value);
  return out;
}

using Ids = std::set<std::uint64_t>;
const OpName kOp{ChannelId(0), 7};
const OpName kOther{ChannelId(1), 3};
const Trainer kWaits{{kOp}, {kOp}, {{0, 8}}};
const Trainer kHas{{kOp}, {}, {{0, 8}}};
const Trainer kHangs{{}, {}, {{0, 7}}};

TEST(WhoHangs, WhoHasNotSubmittedWhatAnotherWaitsFor) {
  EXPECT_EQ(HungOf({kWaits, kHangs}), Ids{2});
  EXPECT_EQ(HungOf({kHas, kHangs, kWaits}), Ids{2});
  EXPECT_EQ(HungOf({kHangs, kWaits, kWaits, kHangs}), (Ids{1, 4}));
  EXPECT_EQ(HungOf({kWaits, {}}), Ids{2}) << "nothing on the channel yet";
}

TEST(WhoHangs, NobodyWhereNobodyHasWaitedForLong) { EXPECT_EQ(HungOf({kHas, kHangs, kHas}), Ids{}); }

TEST(WhoHangs, NobodyWhenItHasSubmittedMeanwhile) { EXPECT_EQ(HungOf({kWaits, kHas, kWaits}), Ids{}); }

TEST(WhoHangs, NobodyWhereItWouldBeMost) { EXPECT_EQ(HungOf({kWaits, kHangs, kHangs}), Ids{}); }

TEST(WhoHangs, WhoWaitsForAnotherOperationIsExcused) {
  const Trainer ahead{{kOp, kOther}, {kOp, kOther}, {{0, 8}, {1, 4}}};
  const Trainer behind{{kOther}, {}, {{0, 7}, {1, 4}}};
  const Trainer hangs{{}, {}, {{0, 7}, {1, 3}}};
  EXPECT_EQ(HungOf({ahead, behind, hangs}), Ids{3});
}

TEST(WhoHangs, OfACircleWhomMostWaitFor) {
  const Trainer wrong_order{{kOther}, {kOther}, {{0, 7}, {1, 4}}};
  const Trainer right{{kOp}, {kOp}, {{0, 8}, {1, 3}}};
  EXPECT_EQ(HungOf({right, right, wrong_order}), Ids{3});
}

TEST(WhoHangs, NobodyWhileAnOperationRunsThatAllHaveSubmitted) {
  const Trainer ahead{{kOp, kOther}, {kOp}, {{0, 8}, {1, 4}}};
  const Trainer behind{{kOther}, {}, {{0, 7}, {1, 4}}};
  EXPECT_EQ(HungOf({ahead, ahead, behind}), Ids{});
}

TEST(WhoHangs, NobodyBeforeTheOneThatWaitsForNothingIsNamed) {
  std::map<PeerId, control::Report> reports;
  reports[PeerId(1)] = ReportBy({{kOp, kOther}, {kOp}, {{0, 8}, {1, 4}}});
  reports[PeerId(1)].mutable_ops(0)->clear_hung_for();
  reports[PeerId(1)].mutable_ops(0)->add_hung_for(2);
  reports[PeerId(2)] = ReportBy({{kOther}, {}, {{0, 7}, {1, 4}}});
  reports[PeerId(3)] = ReportBy({{}, {}, {{0, 7}, {1, 3}}});  // both wait for this one
  EXPECT_TRUE(WhoHangs(reports).empty());
}

TEST(WhoHangs, OnlyThoseWhomAnotherHasWaitedFor) {
  std::map<PeerId, control::Report> reports;
  reports[PeerId(1)] = ReportBy(kWaits);
  reports[PeerId(1)].mutable_ops(0)->clear_hung_for();
  reports[PeerId(1)].mutable_ops(0)->add_hung_for(2);
  reports[PeerId(2)] = reports[PeerId(3)] = ReportBy(kHangs);  // the third is a moment late
  reports[PeerId(4)] = ReportBy(kHas);
  EXPECT_EQ(WhoHangs(reports), std::set<PeerId>{PeerId(2)});
}

TEST(WhoHangs, NobodyForAnOperationThatIsDecided) {
  std::map<PeerId, control::Report> reports;
  reports[PeerId(1)] = ReportBy(kWaits);
  reports[PeerId(2)] = ReportBy(kHangs);
  reports[PeerId(3)] = ReportBy(kHas);
  reports[PeerId(3)].mutable_ops(0)->set_stage(control::OP_STAGE_COMPLETE);
  EXPECT_TRUE(WhoHangs(reports).empty());
}

// A report of a rank that has submitted so many messages, some of which await peers; those of `hung` for too long.
control::Report MessagesBy(std::uint64_t submitted, const std::vector<std::uint64_t>& awaits,
                           const std::map<std::uint64_t, std::uint64_t>& hung = {}) {
  control::Report report;
  report.mutable_messages()->set_submitted(submitted);
  for (const std::uint64_t peer : awaits) report.mutable_messages()->add_awaits(peer);
  for (const auto& [peer, by] : hung) {
    control::MessageWaits::Hung& named = *report.mutable_messages()->add_hung();
    named.set_peer(peer);
    named.set_submitted(by);
  }
  return report;
}
using HungPeers = std::set<PeerId>;

TEST(WhoHangs, WhoseEndOfAMessageIsAwaited) {
  std::map<PeerId, control::Report> reports{{PeerId(1), MessagesBy(5, {2}, {{2, 3}})}, {PeerId(2), MessagesBy(3, {})}};
  EXPECT_EQ(WhoHangs(reports), HungPeers{PeerId(2)});
  reports[PeerId(2)] = MessagesBy(4, {});
  EXPECT_EQ(WhoHangs(reports), HungPeers{}) << "it has submitted one since";
  reports[PeerId(2)] = MessagesBy(3, {});
  reports[PeerId(2)].add_next_seq()->set_seq(1);
  EXPECT_EQ(WhoHangs(reports), HungPeers{}) << "it has submitted an operation since";
}

TEST(WhoHangs, NotWhoReceivesWhatOnlyNeedsTime) {
  std::map<PeerId, control::Report> reports{{PeerId(1), MessagesBy(5, {2}, {{2, 3}})}, {PeerId(2), MessagesBy(3, {})}};
  reports[PeerId(2)].mutable_messages()->set_runs(true);
  EXPECT_EQ(WhoHangs(reports), HungPeers{});
}

TEST(WhoHangs, NotWhoWaitsForAMessageOfAnother) {
  std::map<PeerId, control::Report> reports{
      {PeerId(1), MessagesBy(5, {2}, {{2, 3}})}, {PeerId(2), MessagesBy(3, {3})}, {PeerId(3), MessagesBy(1, {})}};
  EXPECT_EQ(WhoHangs(reports), HungPeers{}) << "it is found later";
  reports[PeerId(2)] = MessagesBy(3, {3}, {{3, 1}});
  EXPECT_EQ(WhoHangs(reports), HungPeers{PeerId(3)});
}

TEST(WhoHangs, OfACircleOfMessagesWhomMostAwait) {
  const std::map<PeerId, control::Report> reports{{PeerId(1), MessagesBy(5, {2}, {{2, 3}})},
                                                  {PeerId(2), MessagesBy(3, {3}, {{3, 1}})},
                                                  {PeerId(3), MessagesBy(1, {2}, {{2, 3}})}};
  EXPECT_EQ(WhoHangs(reports), HungPeers{PeerId(2)});
}

// Others that exchange messages, and one that computes, have nothing to do with it.
TEST(WhoHangs, OfACircleBesideOthersThatGoOn) {
  std::map<PeerId, control::Report> reports{{PeerId(1), MessagesBy(5, {2}, {{2, 3}})},
                                            {PeerId(2), MessagesBy(3, {1})},
                                            {PeerId(3), MessagesBy(8, {})},
                                            {PeerId(4), MessagesBy(9, {})}};
  reports[PeerId(3)].mutable_messages()->set_runs(true);
  EXPECT_EQ(WhoHangs(reports), HungPeers{PeerId(2)});
}

TEST(WhoHangs, AnOperationSaysMoreThanAMessage) {
  std::map<PeerId, control::Report> reports;
  for (std::uint64_t peer = 1; peer <= 3; ++peer) reports[PeerId(peer)] = ReportBy(kWaits);
  reports[PeerId(4)] = ReportBy(kHangs);
  reports[PeerId(4)].mutable_messages()->MergeFrom(MessagesBy(1, {1}, {{1, 8}}).messages());
  EXPECT_EQ(WhoHangs(reports), HungPeers{PeerId(4)});
}

TEST(WhoHangs, NobodyThatIsNoMemberAndNoAccuser) {
  const std::map<PeerId, control::Report> reports{{PeerId(1), MessagesBy(5, {9, 1}, {{9, 0}, {1, 5}})},
                                                  {PeerId(2), MessagesBy(3, {})}};
  EXPECT_EQ(WhoHangs(reports), HungPeers{});
}

class HungTest : public CoordinatorTest {
 protected:
  std::uint64_t JoinWithHung(std::uint64_t connection, std::uint32_t hung_ms) {
    Hello(connection, "d" + std::to_string(connection), connection);
    control::ToMaster message;
    message.mutable_join()->set_group("g");
    message.mutable_join()->set_name("p" + std::to_string(connection));
    message.mutable_join()->set_wait_world(2);
    message.mutable_join()->set_hung_ms(hung_ms);
    Say(connection, message);
    return Last(connection, &control::FromMaster::has_join_accepted)->join_accepted().peer();
  }

  std::uint32_t LimitOf(std::uint32_t one, std::uint32_t other) {
    peers_[1] = JoinWithHung(1, one);
    peers_[2] = JoinWithHung(2, other);
    Connect(1, 2);
    return ViewOf(1).hung_ms();
  }

  void ReportAs(std::uint64_t from, const Trainer& trainer) {
    control::ToMaster message = Report(from, ViewOf(from).epoch());
    const control::Report by = ReportBy(trainer);
    *message.mutable_report()->mutable_ops() = by.ops();
    *message.mutable_report()->mutable_next_seq() = by.next_seq();
    Say(from, message);
  }
};

TEST_F(HungTest, TheGroupTakesTheLongestLimit) { EXPECT_EQ(LimitOf(5000, 9000), 9000u); }

TEST_F(HungTest, NeverIsTheLongest) { EXPECT_EQ(LimitOf(0, 9000), 0u); }

TEST_F(HungTest, NobodyWithSomebodyElsesEnd) {
  Form(4);
  Withdraw(4);
  ReportAs(1, kWaits);
  ReportAs(3, kHas);
  ReportAs(2, kHangs);
  EXPECT_EQ(ViewOf(1).members_size(), 3);
}

TEST_F(HungTest, AReportOfTheViewBeforeIsNoNews) {
  Form(3);
  control::ToMaster late = Report(1, 0);
  late.mutable_report()->set_epoch(ViewOf(1).epoch() - 1);
  *late.mutable_report()->mutable_ops() = ReportBy(kWaits).ops();
  Say(1, late);
  EXPECT_FALSE(TheGroup().collecting());
  late.mutable_report()->set_epoch(ViewOf(1).epoch());
  Say(1, late);
  EXPECT_TRUE(TheGroup().collecting());
}

TEST_F(HungTest, NobodyInAGroupThatEvictsNobodyForIt) {
  hung_ms_ = 0;
  Form(3);
  ReportAs(1, kWaits);
  ReportAs(3, kHas);
  ReportAs(2, kHangs);
  EXPECT_FALSE(TheGroup().collecting());
  EXPECT_EQ(ViewOf(1).members_size(), 3);
}

TEST_F(HungTest, TheOthersGoOnAndItLearnsWhy) {
  Form(3);
  ReportAs(1, kWaits);
  ReportAs(3, kHas);
  ASSERT_EQ(ViewOf(1).members_size(), 3) << "its own daemon has yet to say that it has not submitted it";
  ReportAs(2, kHangs);
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  const auto* evicted = Last(2, &control::FromMaster::has_evicted);
  ASSERT_NE(evicted, nullptr);
  EXPECT_EQ(static_cast<Code>(evicted->evicted().code()), Code::kEvicted);
  EXPECT_NE(evicted->evicted().text().find("submitted nothing"), std::string::npos) << evicted->evicted().text();
}

}  // namespace
}  // namespace ringway
