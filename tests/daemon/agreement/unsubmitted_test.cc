#include "daemon/agreement/unsubmitted.h"

#include <gtest/gtest.h>

namespace ringway::agreement {
namespace {

constexpr ChannelId kUsed(1);

OpName OnUsed(std::uint64_t seq) { return {kUsed, seq}; }

TEST(UnsubmittedTest, VerdictIsTakenOnceAndStandsUntilTheChannelHasMovedOn) {
  Unsubmitted unsubmitted;
  for (const std::uint64_t seq : {3, 4, 5}) unsubmitted.AddVerdict(OnUsed(seq), {});
  EXPECT_TRUE(unsubmitted.TakeVerdict(OnUsed(3)));
  EXPECT_FALSE(unsubmitted.TakeVerdict(OnUsed(3)));
  unsubmitted.ForgetVerdictsBelow({{kUsed, 5}});
  EXPECT_FALSE(unsubmitted.TakeVerdict(OnUsed(4)));
  unsubmitted.OnView();
  EXPECT_TRUE(unsubmitted.TakeVerdict(OnUsed(5))) << "only a decided view ends it";
  unsubmitted.AddVerdict(OnUsed(6), {});
  unsubmitted.ForgetVerdicts();
  EXPECT_FALSE(unsubmitted.TakeVerdict(OnUsed(6)));
}

TEST(UnsubmittedTest, ChannelsStandBeyondWhatHasAVerdict) {
  Unsubmitted unsubmitted;
  unsubmitted.AddVerdict(OnUsed(4), {});
  unsubmitted.AddVerdict({ChannelId(2), 1}, {});
  ChannelSeqs next{{kUsed, 2}, {ChannelId(2), 7}};
  next = unsubmitted.SkipVerdicts(next);
  EXPECT_EQ(next, (ChannelSeqs{{kUsed, 5}, {ChannelId(2), 7}}));
}

TEST(UnsubmittedTest, ReadiesCountForTheViewInForce) {
  Unsubmitted unsubmitted;
  unsubmitted.AddReady(OnUsed(1), PeerId(7), {});
  unsubmitted.AddReady(OnUsed(1), PeerId(8), {});
  EXPECT_EQ(unsubmitted.TakeReadies(OnUsed(1)).size(), 2u);
  EXPECT_TRUE(unsubmitted.TakeReadies(OnUsed(1)).empty());
  unsubmitted.AddReady(OnUsed(1), PeerId(7), {});
  unsubmitted.OnView();
  EXPECT_TRUE(unsubmitted.TakeReadies(OnUsed(1)).empty());
}

}  // namespace
}  // namespace ringway::agreement
