#include "daemon/agreement/op_table.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "daemon/buffers/trainer_buffers.h"

namespace ringway::agreement {
namespace {

constexpr ChannelId kOne(1);

Submission OnChannelOne(std::uint64_t token) {
  Submission submission;
  submission.token = token;
  submission.spec.channel = kOne.value;
  submission.buffers = std::make_shared<buffers::TrainerBuffers>();
  return submission;
}

TEST(OpTable, WhatIsSkippedIsFinishedAndAcknowledged) {
  OpTable table;
  table.SkipTo({{kOne, 4}, {ChannelId(2), 1}});
  EXPECT_EQ(table.NextSeq(kOne), 4u);
  EXPECT_EQ(table.NextSeq(ChannelId(2)), 1u);
  EXPECT_EQ(table.CompleteUpto(kOne), 3u);
  EXPECT_TRUE(table.IsFinished(OpName{kOne, 3}));
  EXPECT_FALSE(table.IsFinished(OpName{kOne, 4}));
  EXPECT_EQ(table.Add(OnChannelOne(7)).name, (OpName{kOne, 4}));
}

TEST(OpTable, FinishedOnesBeyondAGapAreRunsAndBounded) {
  OpTable table;
  for (std::uint64_t token = 1; token <= 10; ++token) {
    Operation& op = table.Add(OnChannelOne(token));
    op.stage = Stage::kReported;
  }
  for (const std::uint64_t seq : {3u, 4u, 5u, 8u, 10u}) table.Forget({kOne, seq});
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
  for (const OpTable::Run& run : table.FinishedBeyondAll()) runs.emplace_back(run.first, run.last);
  EXPECT_EQ(runs, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{3, 5}, {8, 8}, {10, 10}}));
  EXPECT_FALSE(table.IsTooFarBeyond(kOne));
  table.SkipTo({{kOne, OpTable::kBeyondMax + 2}});
  EXPECT_TRUE(table.IsTooFarBeyond(kOne)) << "the first is not finished";
  EXPECT_FALSE(table.IsTooFarBeyond(ChannelId(2)));
  EXPECT_EQ(table.FinishedBeyondAll().size(), 3u);
}

TEST(OpTable, NothingThatWasSubmittedIsSkipped) {
  OpTable table;
  for (std::uint64_t token = 1; token <= 3; ++token) (void)table.Add(OnChannelOne(token));
  table.SkipTo({{kOne, 3}});
  EXPECT_EQ(table.NextSeq(kOne), 4u);
  EXPECT_EQ(table.CompleteUpto(kOne), 0u);
  table.SkipTo({{kOne, 6}});
  EXPECT_EQ(table.NextSeq(kOne), 6u);
  EXPECT_EQ(table.CompleteUpto(kOne), 0u) << "the first three have no outcome yet";
  for (std::uint64_t seq = 1; seq <= 3; ++seq) table.MarkComplete({kOne, seq});
  EXPECT_EQ(table.CompleteUpto(kOne), 5u);
}

}  // namespace
}  // namespace ringway::agreement
