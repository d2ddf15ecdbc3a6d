#include "master/coordination/verdicts.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

namespace ringway {
namespace {

control::OpReport Op(std::uint64_t seq, control::OpStage stage, std::uint64_t epoch = 0) {
  control::OpReport op;
  op.set_seq(seq);
  op.set_stage(stage);
  op.set_result_epoch(epoch);
  return op;
}

control::Report ReportOf(std::initializer_list<control::OpReport> ops, std::uint64_t finished = 0) {
  control::Report report;
  for (const control::OpReport& op : ops) *report.add_ops() = op;
  if (finished != 0) report.add_finished_upto()->set_seq(finished);
  return report;
}

Code CodeOf(const control::Verdict& verdict) { return static_cast<Code>(verdict.code()); }

const auto kRunning = control::OP_STAGE_RUNNING;
const auto kComplete = control::OP_STAGE_COMPLETE;
const auto kReported = control::OP_STAGE_REPORTED;
const auto kPart = control::OP_STAGE_PART;
const Status kLost(Code::kPeerLost, "lost host-b");
const Status kTooSmall(Code::kWorldTooSmall, "the group has 2 peers and needs 3");

TEST(Verdicts, RunningEverywhereIsARetryWhichNeedsNoVerdict) {
  EXPECT_TRUE(DecideVerdicts({{PeerId(1), ReportOf({Op(1, kRunning)})}, {PeerId(2), ReportOf({})}}, {}).empty());
}

TEST(Verdicts, OneCompleteOrReportedMemberCommitsAndIsNamedAsHolder) {
  for (const control::OpStage stage : {kComplete, kReported}) {
    const auto verdicts =
        DecideVerdicts({{PeerId(1), ReportOf({Op(4, kRunning)})}, {PeerId(2), ReportOf({Op(4, stage, 77)})}}, {});
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(CodeOf(verdicts[0]), Code::kOk);
    EXPECT_EQ(verdicts[0].result_epoch(), 77u);
    ASSERT_EQ(verdicts[0].holders_size(), 1);
    EXPECT_EQ(verdicts[0].holders(0), 2u);
  }
}

TEST(Verdicts, MemberThatFinishedTheOperationIsAHolder) {
  const auto verdicts =
      DecideVerdicts({{PeerId(1), ReportOf({Op(4, kComplete, 77)})}, {PeerId(2), ReportOf({}, 4)}}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].holders_size(), 2);
}

TEST(Verdicts, PartsAreCommittedOnlyWhereAllWhoStayHaveTheirsOfOneEpoch) {
  const auto decide = [](const control::Report& other) {
    return DecideVerdicts({{PeerId(1), ReportOf({Op(4, kPart, 77)})}, {PeerId(2), other}}, {});
  };
  for (const control::Report& other :
       {ReportOf({Op(4, kPart, 77)}), ReportOf({}, 4), ReportOf({Op(4, kComplete, 77)})}) {
    const auto verdicts = decide(other);
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(CodeOf(verdicts[0]), Code::kOk);
    EXPECT_EQ(verdicts[0].result_epoch(), 77u);
  }
  for (const control::Report& other : {ReportOf({Op(4, kRunning)}), ReportOf({Op(4, kPart, 78)}), ReportOf({})}) {
    EXPECT_TRUE(decide(other).empty());
  }
}

TEST(Verdicts, FinishedBeyondAGapCountsAsHeld) {
  control::Report beyond;
  beyond.add_finished_beyond()->set_first(3);
  beyond.mutable_finished_beyond(0)->set_last(4);
  const auto verdicts = DecideVerdicts({{PeerId(1), ReportOf({Op(4, kPart, 77)})}, {PeerId(2), beyond}}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].holders_size(), 2);
  beyond.mutable_finished_beyond(0)->set_last(3);
  EXPECT_TRUE(DecideVerdicts({{PeerId(1), ReportOf({Op(4, kPart, 77)})}, {PeerId(2), beyond}}, {}).empty());
}

TEST(Verdicts, CommitBeatsCancelMismatchAndLoss) {
  control::OpReport cancelled = Op(1, kRunning);
  cancelled.set_cancel(true);
  cancelled.set_mismatch("a; b");
  const auto verdicts =
      DecideVerdicts({{PeerId(1), ReportOf({cancelled})}, {PeerId(2), ReportOf({Op(1, kComplete, 5)})}},
                     {.peer_lost = kLost, .too_small = kTooSmall});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kOk);
}

TEST(Verdicts, FailuresAreTypedAndCarryTheirText) {
  control::OpReport mismatch = Op(1, kRunning);
  mismatch.set_mismatch("a submitted X; b submitted Y");
  control::OpReport cancel = Op(2, kRunning);
  cancel.set_cancel(true);
  const auto verdicts = DecideVerdicts({{PeerId(1), ReportOf({mismatch, cancel, Op(3, kRunning)})}},
                                       {.peer_lost = kLost, .too_small = kTooSmall});
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kMismatch);
  EXPECT_EQ(verdicts[0].text(), "a submitted X; b submitted Y");
  EXPECT_EQ(CodeOf(verdicts[1]), Code::kCancelled);
  EXPECT_EQ(CodeOf(verdicts[2]), Code::kPeerLost);
  EXPECT_NE(verdicts[2].text().find("host-b"), std::string::npos);
}

TEST(Verdicts, AgreedFailureThatOneMemberGotStaysTheOutcomeForAll) {
  control::OpReport failed = Op(1, kReported, 5);
  failed.set_code(static_cast<std::uint32_t>(Code::kCancelled));
  const auto verdicts = DecideVerdicts({{PeerId(1), ReportOf({failed})}, {PeerId(2), ReportOf({Op(1, kRunning)})}}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kCancelled);
}

TEST(Verdicts, ContradictingOutcomesAreNeitherOfTheTwo) {
  const auto verdicts =
      DecideVerdicts({{PeerId(1), ReportOf({Op(1, kComplete, 5)})}, {PeerId(2), ReportOf({Op(1, kComplete, 6)})}}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kInternal);
}

TEST(Verdicts, ChannelsAreJudgedApartAndInOrder) {
  control::OpReport other = Op(4, kComplete, 9);
  other.set_channel(1);
  const auto verdicts = DecideVerdicts({{PeerId(1), ReportOf({other, Op(4, kComplete, 7)}, 3)}}, {});
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].channel(), 0u);
  EXPECT_EQ(verdicts[0].result_epoch(), 7u);
  EXPECT_EQ(verdicts[1].channel(), 1u);
  EXPECT_EQ(verdicts[1].result_epoch(), 9u);
}

TEST(Verdicts, FinishedBelowTheOperationIsNoHolder) {
  const auto verdicts =
      DecideVerdicts({{PeerId(1), ReportOf({Op(4, kComplete, 7)})}, {PeerId(2), ReportOf({}, 3)}}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].holders_size(), 1);
}

TEST(Verdicts, MismatchBeatsCancelAndTheLowestReporterIsQuoted) {
  control::OpReport low = Op(1, kRunning);
  low.set_mismatch("low");
  control::OpReport high = Op(1, kRunning);
  high.set_mismatch("high");
  high.set_cancel(true);
  const auto verdicts = DecideVerdicts({{PeerId(3), ReportOf({high})}, {PeerId(2), ReportOf({low})}}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kMismatch);
  EXPECT_EQ(verdicts[0].text(), "low");
}

TEST(Verdicts, SuccessAndErrorForOneOperationContradictAndBothAreNamed) {
  control::OpReport failed = Op(1, kReported);
  failed.set_code(static_cast<std::uint32_t>(Code::kMismatch));
  const auto verdicts = DecideVerdicts(
      {{PeerId(1), ReportOf({failed})}, {PeerId(2), ReportOf({Op(1, kReported, Epoch::Of(1, 5).value)})}}, {});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kInternal);
  EXPECT_NE(verdicts[0].text().find("mismatch"), std::string::npos) << verdicts[0].text();
  EXPECT_NE(verdicts[0].text().find("epoch 1.5"), std::string::npos) << verdicts[0].text();
}

TEST(Verdicts, OfADroppedMemberNothingIsKnown) {  // its report is not among those of the new view
  EXPECT_TRUE(DecideVerdicts({{PeerId(1), ReportOf({Op(1, kRunning)})}}, {}).empty());
}

TEST(Verdicts, BelowTheMinimumWhatAnybodySubmittedFailsForAll) {
  const auto verdicts = DecideVerdicts(
      {{PeerId(1), ReportOf({Op(4, kRunning), Op(5, kRunning)})}, {PeerId(2), ReportOf({Op(4, kRunning)})}},
      {.peer_lost = {}, .too_small = kTooSmall});
  ASSERT_EQ(verdicts.size(), 2u);
  for (const control::Verdict& verdict : verdicts) {
    EXPECT_EQ(CodeOf(verdict), Code::kWorldTooSmall);
    EXPECT_EQ(verdict.text(), kTooSmall.text());
  }
}

TEST(Verdicts, BelowTheMinimumAnUpdateViewGoesOnUnlessItIsSomethingElseToAnother) {
  control::OpReport update = Op(4, kRunning);
  update.set_update_view(true);
  const VerdictOptions options{.peer_lost = {}, .too_small = kTooSmall};
  EXPECT_TRUE(DecideVerdicts({{PeerId(1), ReportOf({update})}, {PeerId(2), ReportOf({update})}}, options).empty());
  const std::map<PeerId, control::Report> ahead = {{PeerId(1), ReportOf({update})},
                                                   {PeerId(2), ReportOf({Op(4, kRunning), Op(5, kRunning)})}};
  const auto verdicts = DecideVerdicts(ahead, options);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].seq(), 4u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kWorldTooSmall);
  EXPECT_EQ(CodeOf(verdicts[1]), Code::kWorldTooSmall);
}

TEST(ClipText, CutsBetweenCharactersOnly) {
  EXPECT_EQ(ClipText("short"), "short");
  EXPECT_EQ(ClipText(std::string(600, 'x')).size(), 512u);
  std::string wide(511, 'x');
  wide += "\xe2\x82\xac and more";  // a character of three bytes across the limit
  EXPECT_EQ(ClipText(wide).size(), 511u);
}

}  // namespace
}  // namespace ringway
