#include "daemon/agreement/stragglers.h"

#include <gtest/gtest.h>

namespace ringway::agreement {
namespace {

class StragglersTest : public testing::Test {
 protected:
  using Seconds = std::chrono::seconds;
  static constexpr Seconds kLimit{10};
  static constexpr PeerId kOther{2};
  const TimePoint start_ = TimePoint() + std::chrono::hours(5);

  static View ViewWith(PeerId member) {
    View view;
    view.ranks[member] = Rank(0);
    return view;
  }
  // Has submitted so many on channels 0 and 1.
  void Hear(Seconds at, std::uint64_t first, std::uint64_t second) {
    stragglers_.Heard(kOther, {.next = {{ChannelId(0), first}, {ChannelId(1), second}}}, own_, false, start_ + at);
  }
  // Has submitted all operations, and so many messages; one of this rank waits for it.
  void HearMessages(Seconds at, std::uint64_t messages, bool awaited = true) {
    stragglers_.Heard(kOther, {.next = own_, .messages = messages}, own_, awaited, start_ + at);
  }
  bool HoldsUp(Seconds at, const OpName& op) { return stragglers_.HoldsUp(op, kOther, kLimit, start_ + at); }

  ChannelSeqs own_ = {{ChannelId(0), 8}, {ChannelId(1), 3}};
  const OpName op_{ChannelId(0), 7};
  Stragglers stragglers_;
};

TEST_F(StragglersTest, HoldsUpWhoHasNotSubmittedForTheLimit) {
  Hear(Seconds(0), 7, 3);
  Hear(Seconds(9), 7, 3);
  EXPECT_FALSE(HoldsUp(Seconds(9), op_));
  EXPECT_TRUE(HoldsUp(Seconds(10), op_));
}

TEST_F(StragglersTest, ItsTimeBeginsWhenThisRankIsAhead) {
  own_[ChannelId(0)] = 7;
  Hear(Seconds(0), 7, 3);
  own_[ChannelId(0)] = 8;
  Hear(Seconds(8), 7, 3);
  EXPECT_FALSE(HoldsUp(Seconds(17), op_));
  EXPECT_TRUE(HoldsUp(Seconds(18), op_));
}

TEST_F(StragglersTest, AnySubmissionBeginsItAnew) {
  Hear(Seconds(0), 7, 1);
  Hear(Seconds(9), 7, 2);
  EXPECT_FALSE(HoldsUp(Seconds(18), op_));
  EXPECT_TRUE(HoldsUp(Seconds(19), op_));
}

TEST_F(StragglersTest, NotWhatItHasSubmitted) {
  Hear(Seconds(0), 8, 2);
  EXPECT_FALSE(HoldsUp(Seconds(100), op_));
  EXPECT_TRUE(HoldsUp(Seconds(100), {ChannelId(1), 2}));
}

TEST_F(StragglersTest, HoldsUpWhoseEndOfAMessageIsAwaited) {
  HearMessages(Seconds(0), 4, false);
  HearMessages(Seconds(5), 4);
  HearMessages(Seconds(14), 4);
  EXPECT_FALSE(stragglers_.HoldsUp(kOther, kLimit, start_ + Seconds(14)));
  EXPECT_TRUE(stragglers_.HoldsUp(kOther, kLimit, start_ + Seconds(15)));
  EXPECT_FALSE(HoldsUp(Seconds(15), op_)) << "it has submitted that";
  EXPECT_EQ(stragglers_.ProgressOf(kOther).messages, 4U);
  HearMessages(Seconds(16), 4, false);
  EXPECT_FALSE(stragglers_.HoldsUp(kOther, kLimit, start_ + Seconds(30)));
}

TEST_F(StragglersTest, NotWhileAMessageOfItsNeedsTimeAlone) {
  const Progress runs{.next = own_, .messages = 4, .runs = true};
  for (const Seconds at : {Seconds(0), Seconds(8), Seconds(16)})
    stragglers_.Heard(kOther, runs, own_, true, start_ + at);
  EXPECT_FALSE(stragglers_.HoldsUp(kOther, kLimit, start_ + Seconds(25)));
  EXPECT_TRUE(stragglers_.HoldsUp(kOther, kLimit, start_ + Seconds(26)));
}

TEST_F(StragglersTest, AMessageBeginsItAnew) {
  HearMessages(Seconds(0), 4);
  HearMessages(Seconds(9), 5);
  EXPECT_FALSE(stragglers_.HoldsUp(kOther, kLimit, start_ + Seconds(18)));
  EXPECT_TRUE(stragglers_.HoldsUp(kOther, kLimit, start_ + Seconds(19)));
}

// Operations that fail by their deadlines are others, and it has submitted none of them.
TEST_F(StragglersTest, LaterOperationsOfThisRankDoNotBeginItAnew) {
  Hear(Seconds(0), 7, 3);
  own_[ChannelId(0)] = 12;
  Hear(Seconds(5), 7, 3);
  EXPECT_TRUE(HoldsUp(Seconds(10), {ChannelId(0), 11}));
}

TEST_F(StragglersTest, NoTimePassesWhileTheViewIsStopped) {
  Hear(Seconds(0), 7, 3);
  stragglers_.OnStop(start_ + Seconds(4));
  stragglers_.OnStop(start_ + Seconds(6));
  stragglers_.OnView(ViewWith(kOther), start_ + Seconds(50));
  EXPECT_FALSE(HoldsUp(Seconds(55), op_));
  EXPECT_TRUE(HoldsUp(Seconds(56), op_));
}

TEST_F(StragglersTest, AViewThatComesWithoutAStopChangesNothing) {
  Hear(Seconds(0), 7, 3);
  stragglers_.OnView(ViewWith(kOther), start_ + Seconds(5));
  EXPECT_TRUE(HoldsUp(Seconds(10), op_));
}

TEST_F(StragglersTest, TheLossOfARankBeginsItAnewForTheOthers) {
  Hear(Seconds(0), 7, 3);
  stragglers_.Heard(PeerId(3), {}, own_, false, start_);
  stragglers_.OnView(ViewWith(kOther), start_ + Seconds(9));
  EXPECT_FALSE(HoldsUp(Seconds(18), op_));
  EXPECT_TRUE(HoldsUp(Seconds(19), op_));
  EXPECT_FALSE(stragglers_.HoldsUp(op_, PeerId(3), kLimit, start_ + Seconds(100)));
}

TEST_F(StragglersTest, KnowsWhatAllHaveSubmitted) {
  Hear(Seconds(0), 8, 3);
  stragglers_.Heard(PeerId(3), {.next = {{ChannelId(0), 8}}}, own_, false, start_);
  EXPECT_TRUE(stragglers_.AllHave(op_));
  EXPECT_FALSE(stragglers_.AllHave({ChannelId(1), 2}));
}

TEST_F(StragglersTest, APauseOfThisProcessBeginsItAnew) {
  Hear(Seconds(0), 7, 3);
  stragglers_.BeginAnew(start_ + Seconds(30));
  EXPECT_FALSE(HoldsUp(Seconds(39), op_));
  EXPECT_TRUE(HoldsUp(Seconds(40), op_));
}

}  // namespace
}  // namespace ringway::agreement
