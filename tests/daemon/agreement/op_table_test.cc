#include "daemon/agreement/op_table.h"

#include <gtest/gtest.h>

namespace ringway::agreement {
namespace {

constexpr ChannelId kOne(1);

Submission OnChannelOne(std::uint64_t token) {
  Submission submission;
  submission.token = token;
  submission.channel = kOne;
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
