#include "daemon/links/lane_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringway::links {
namespace {

constexpr PeerId kOther(7);
const LinkId kLane{.other = kOther, .control = false, .lane = LaneId(2)};

control::LaneClosed Closed(std::uint64_t generation, std::uint64_t frames) {
  control::LaneClosed closed;
  closed.set_lane(2);
  closed.set_generation(generation);
  closed.set_frames(frames);
  return closed;
}

SentFrame Frame(std::uint32_t segment, std::uint64_t attempt = 1) {
  return {.op = {}, .attempt = attempt, .ready = {.departure = 0, .segment = segment}};
}

std::vector<std::uint32_t> Segments(const LaneLedger::Settled& settled) {
  std::vector<std::uint32_t> out;
  for (const SentFrame& frame : settled.lost) out.push_back(frame.ready.segment);
  return out;
}

class LaneLedgerTest : public testing::Test {
 protected:
  void Send(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) book_.CountOut(kLane, Frame(i), kAllLive);
  }
  static bool kAllLive(std::uint64_t) { return true; }
  LaneLedger book_;
};

TEST_F(LaneLedgerTest, WhatTheOtherEndDidNotTakeIsLostInOrder) {
  ASSERT_TRUE(book_.Up(kLane, 1));
  Send(5);
  (void)book_.Down(kLane);
  EXPECT_EQ(Segments(book_.OnClosed(kOther, Closed(1, 3))), (std::vector<std::uint32_t>{3, 4}));
  EXPECT_TRUE(book_.OnClosed(kOther, Closed(1, 0)).lost.empty()) << "settled once";
}

TEST_F(LaneLedgerTest, FrameThatWasRefusedIsNamedAmongTheLost) {
  ASSERT_TRUE(book_.Up(kLane, 1));
  Send(5);
  book_.Refuse(kLane);
  control::LaneClosed closed = book_.Down(kLane);
  EXPECT_TRUE(closed.refused()) << "what came next";
  closed.set_frames(3);
  const LaneLedger::Settled settled = book_.OnClosed(kOther, closed);
  ASSERT_TRUE(settled.refused.has_value());
  EXPECT_EQ(settled.refused->ready.segment, 3u);
  EXPECT_EQ(Segments(settled), (std::vector<std::uint32_t>{3, 4}));
  ASSERT_TRUE(book_.Up(kLane, 2));
  EXPECT_FALSE(book_.Down(kLane).refused()) << "of one generation";
}

TEST_F(LaneLedgerTest, EachEndTellsHowManyItTook) {
  ASSERT_TRUE(book_.Up(kLane, 4));
  book_.CountIn(kLane);
  book_.CountIn(kLane);
  const control::LaneClosed closed = book_.Down(kLane);
  EXPECT_EQ(closed.lane(), 2u);
  EXPECT_EQ(closed.generation(), 4u);
  EXPECT_EQ(closed.frames(), 2u);
}

TEST_F(LaneLedgerTest, EndThatHasNotNoticedHasToCloseFirst) {
  ASSERT_TRUE(book_.Up(kLane, 1));
  Send(2);
  const LaneLedger::Settled first = book_.OnClosed(kOther, Closed(1, 1));
  EXPECT_TRUE(first.close);
  EXPECT_TRUE(first.lost.empty());
  (void)book_.Down(kLane);
  EXPECT_EQ(Segments(book_.OnClosed(kOther, Closed(1, 1))), (std::vector<std::uint32_t>{1}));
}

TEST_F(LaneLedgerTest, GenerationsAreSettledApart) {
  ASSERT_TRUE(book_.Up(kLane, 1));
  Send(1);
  (void)book_.Down(kLane);
  ASSERT_TRUE(book_.Up(kLane, 2));
  Send(3);
  EXPECT_EQ(Segments(book_.OnClosed(kOther, Closed(1, 0))), (std::vector<std::uint32_t>{0}));
  EXPECT_TRUE(book_.IsUp(kLane)) << "the newer one is not concerned";
}

TEST_F(LaneLedgerTest, GenerationThatNeverCameUpHereIsAnsweredAndRefusedLater) {
  const LaneLedger::Settled settled = book_.OnClosed(kOther, Closed(3, 9));
  ASSERT_TRUE(settled.answer.has_value());
  EXPECT_EQ(settled.answer->frames(), 0u);
  EXPECT_EQ(settled.answer->generation(), 3u);
  EXPECT_FALSE(book_.Up(kLane, 3));
  EXPECT_TRUE(book_.Up(kLane, 4));
}

// Its dial had failed here, and the next one was quicker than the other end's word.
TEST_F(LaneLedgerTest, GenerationThatNeverCameUpHereIsAnsweredWhileALaterOneIsUp) {
  ASSERT_TRUE(book_.Up(kLane, 2));
  Send(2);
  const LaneLedger::Settled settled = book_.OnClosed(kOther, Closed(1, 0));
  ASSERT_TRUE(settled.answer.has_value());
  EXPECT_EQ(settled.answer->generation(), 1u);
  EXPECT_TRUE(settled.answer->answer());
  EXPECT_TRUE(book_.IsUp(kLane));
  EXPECT_EQ(book_.Down(kLane).generation(), 2u);
}

TEST_F(LaneLedgerTest, ALaterGenerationThatIsSpokenOfDoesNotRenameTheOneThatIsUp) {
  ASSERT_TRUE(book_.Up(kLane, 2));
  EXPECT_TRUE(book_.OnClosed(kOther, Closed(5, 0)).answer.has_value());
  EXPECT_EQ(book_.Down(kLane).generation(), 2u);
  EXPECT_FALSE(book_.Up(kLane, 5));
  EXPECT_TRUE(book_.Up(kLane, 6));
}

TEST_F(LaneLedgerTest, AnAnswerIsNotAnswered) {
  control::LaneClosed answer = Closed(3, 0);
  answer.set_answer(true);
  EXPECT_FALSE(book_.OnClosed(kOther, answer).answer.has_value());
}

// The frame of attempt 1 stays live all the time, and stands before all that are over.
TEST_F(LaneLedgerTest, FramesThatAreOverAreForgottenBehindOneThatIsNotAndTheCountGoesOn) {
  constexpr std::uint32_t kFrames = 100'000;
  ASSERT_TRUE(book_.Up(kLane, 1));
  std::size_t kept_max = 0;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    const std::uint64_t attempt = i == 10 ? 1 : 2 + i;
    book_.CountOut(kLane, Frame(i, attempt), [&](std::uint64_t a) { return a == 1 || a == attempt; });
    kept_max = std::max(kept_max, book_.KeptFrames());
  }
  EXPECT_LE(kept_max, LaneLedger::kSweepMin + 1);
  (void)book_.Down(kLane);
  const std::vector<std::uint32_t> lost = Segments(book_.OnClosed(kOther, Closed(1, kFrames - 1)));
  EXPECT_EQ(lost, std::vector<std::uint32_t>{kFrames - 1}) << "numbers are those of all frames sent";
}

TEST_F(LaneLedgerTest, LiveFrameKeptThroughSweepsIsLostIfTheOtherEndTookLess) {
  ASSERT_TRUE(book_.Up(kLane, 1));
  for (std::uint32_t i = 0; i < 1000; ++i) {
    book_.CountOut(kLane, Frame(i, i == 10 ? 1 : 2), [](std::uint64_t a) { return a == 1; });
  }
  (void)book_.Down(kLane);
  const std::vector<std::uint32_t> lost = Segments(book_.OnClosed(kOther, Closed(1, 10)));
  ASSERT_FALSE(lost.empty());
  EXPECT_EQ(lost.front(), 10u);
}

TEST_F(LaneLedgerTest, CountBeyondWhatWasSentLosesNothing) {
  ASSERT_TRUE(book_.Up(kLane, 1));
  Send(2);
  (void)book_.Down(kLane);
  EXPECT_TRUE(book_.OnClosed(kOther, Closed(1, ~std::uint64_t{0})).lost.empty());
}

}  // namespace
}  // namespace ringway::links
