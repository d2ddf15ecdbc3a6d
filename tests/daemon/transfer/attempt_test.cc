#include "daemon/transfer/attempt.h"

#include <gtest/gtest.h>

#include "tests/daemon/transfer/pair.h"

namespace ringway::transfer {
namespace {

TEST(Attempts, NumberIsLiveUntilItsAttemptEndsAndNeverUsedAgain) {
  Pair pair;
  const std::uint64_t first = pair.sender.number();
  EXPECT_EQ(pair.attempts.Find(first), &pair.sender);
  pair.Begin(pair.sender, 1, true);
  EXPECT_FALSE(pair.attempts.IsLive(first));
  EXPECT_GT(pair.sender.number(), first);
  EXPECT_EQ(pair.attempts.Find(pair.sender.number()), &pair.sender);
  pair.sender.End();
  EXPECT_FALSE(pair.sender.live());
  EXPECT_EQ(pair.attempts.Find(pair.sender.number()), nullptr);
  EXPECT_EQ(pair.attempts.Find(0), nullptr);
}

TEST(Attempts, NumberIsDeadOnceItsAttemptIsGone) {
  Pair pair;
  std::uint64_t number = 0;
  {
    Attempt attempt;
    pair.Begin(attempt, 2, true);
    number = attempt.number();
    EXPECT_TRUE(pair.attempts.IsLive(number));
  }
  EXPECT_FALSE(pair.attempts.IsLive(number));
}

TEST(Attempt, FramesCarryItsNameAndItsNumberIsKeptWithThem) {
  Pair pair;
  const Pair::Sent sent = pair.Send();
  EXPECT_EQ(sent.header.kind, SegmentKind::kMessage);
  EXPECT_EQ(sent.header.epoch, Epoch(1));
  EXPECT_EQ(sent.header.op, (OpName{ChannelId(), 1}));
  EXPECT_EQ(sent.kept.attempt, pair.sender.number());
  EXPECT_EQ(sent.kept.hash, sent.header.payload_hash);
  EXPECT_EQ(pair.sender.wire_bytes, kSegmentHeaderBytes + Pair::kBytes);
  EXPECT_EQ(pair.sender.ToText(), "message 1 of channel 0, tag 0");
}

TEST(Attempt, TrainersMemoryIsWatchedUntilItIsReturned) {
  Pair pair;
  EXPECT_TRUE(pair.sender.trainer_writes({.departure = 0, .segment = 0}));
  EXPECT_TRUE(pair.receiver.trainer_writes_output());
  pair.sender.returned = pair.receiver.returned = true;
  EXPECT_FALSE(pair.sender.trainer_writes({.departure = 0, .segment = 0}));
  EXPECT_FALSE(pair.receiver.trainer_writes_output());
}

}  // namespace
}  // namespace ringway::transfer
