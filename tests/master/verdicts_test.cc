#include "master/verdicts.h"

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

TEST(Verdicts, CommitBeatsCancelMismatchAndLoss) {
  control::OpReport cancelled = Op(1, kRunning);
  cancelled.set_cancel(true);
  cancelled.set_mismatch("a; b");
  const auto verdicts =
      DecideVerdicts({{PeerId(1), ReportOf({cancelled})}, {PeerId(2), ReportOf({Op(1, kComplete, 5)})}},
                     {.peers_lost = true, .fail_on_peer_loss = true, .lost_names = "x"});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kOk);
}

TEST(Verdicts, FailuresAreTypedAndCarryTheirText) {
  control::OpReport mismatch = Op(1, kRunning);
  mismatch.set_mismatch("a submitted X; b submitted Y");
  control::OpReport cancel = Op(2, kRunning);
  cancel.set_cancel(true);
  const auto verdicts = DecideVerdicts({{PeerId(1), ReportOf({mismatch, cancel, Op(3, kRunning)})}},
                                       {.peers_lost = true, .fail_on_peer_loss = true, .lost_names = "host-b"});
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_EQ(CodeOf(verdicts[0]), Code::kMismatch);
  EXPECT_EQ(verdicts[0].text(), "a submitted X; b submitted Y");
  EXPECT_EQ(CodeOf(verdicts[1]), Code::kCancelled);
  EXPECT_EQ(CodeOf(verdicts[2]), Code::kPeerLost);
  EXPECT_NE(verdicts[2].text().find("host-b"), std::string::npos);
}

TEST(Verdicts, LeavingFailsNothingInAFailOnLossGroup) {
  EXPECT_TRUE(DecideVerdicts({{PeerId(1), ReportOf({Op(3, kRunning)})}}, {.fail_on_peer_loss = true}).empty());
}

TEST(Verdicts, AgreedFailureThatOneMemberWasToldStaysTheOutcomeForAll) {
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

}  // namespace
}  // namespace ringway
