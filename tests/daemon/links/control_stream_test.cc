#include "daemon/links/control_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::links {
namespace {

control::PeerMessage SaidDone(std::uint64_t seq) {
  control::PeerMessage message;
  message.mutable_done()->set_seq(seq);
  return message;
}

control::PeerMessage Sent(ControlStream& from, std::uint64_t seq) {
  control::PeerMessage message = SaidDone(seq);
  EXPECT_TRUE(from.Number(message));
  from.Stamp(message);
  return message;
}

control::PeerMessage Beat(ControlStream& from) {
  control::PeerMessage message;
  message.mutable_heartbeat();
  from.Stamp(message);
  return message;
}

using Verdict = ControlStream::Verdict;

TEST(ControlStream, WhatANewLinkBringsAgainIsTakenOnceAndInOrder) {
  ControlStream a, b;
  std::vector<control::PeerMessage> sent;
  for (std::uint64_t seq = 1; seq <= 5; ++seq) sent.push_back(Sent(a, seq));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(b.Take(sent[i]), Verdict::kNew);
  // Two were lost with the link, and so was every acknowledgement.
  ASSERT_EQ(a.kept().size(), 5U);
  std::vector<std::uint64_t> taken;
  for (control::PeerMessage again : a.kept()) {
    a.Stamp(again);
    if (b.Take(again) == Verdict::kNew) taken.push_back(again.done().seq());
  }
  EXPECT_EQ(taken, (std::vector<std::uint64_t>{4, 5}));
}

TEST(ControlStream, AcknowledgedMessagesAreForgotten) {
  ControlStream a, b;
  for (std::uint64_t seq = 1; seq <= 4; ++seq) {
    EXPECT_EQ(b.Take(Sent(a, seq)), Verdict::kNew);
  }
  EXPECT_EQ(a.Take(Beat(b)), Verdict::kNew);
  EXPECT_TRUE(a.kept().empty());
  EXPECT_EQ(b.Take(Sent(a, 5)), Verdict::kNew) << "numbers go on";
}

TEST(ControlStream, GapIsAnErrorAndWhatComesAfterItIsNotTaken) {
  ControlStream a, b;
  const control::PeerMessage first = Sent(a, 1), second = Sent(a, 2);
  EXPECT_EQ(b.Take(second), Verdict::kBroken);
  EXPECT_EQ(b.Take(first), Verdict::kNew);
  EXPECT_EQ(b.Take(second), Verdict::kNew);
}

TEST(ControlStream, AcknowledgementOfWhatWasNotSentIsAnError) {
  ControlStream a;
  control::PeerMessage lie;
  lie.mutable_heartbeat();
  lie.set_taken(1);
  EXPECT_EQ(a.Take(lie), Verdict::kBroken);
}

TEST(ControlStream, NumbersGoWithMessagesAndNotWithHeartbeats) {
  ControlStream a;
  EXPECT_EQ(a.Take(SaidDone(1)), Verdict::kBroken);
  control::PeerMessage beat;
  beat.mutable_heartbeat();
  beat.set_number(1);
  EXPECT_EQ(a.Take(beat), Verdict::kBroken);
}

TEST(ControlStream, WhatIsNotAcknowledgedIsBounded) {
  ControlStream a, b;
  std::uint64_t count = 0;
  for (control::PeerMessage message = SaidDone(1); a.Number(message); message = SaidDone(1)) ++count;
  EXPECT_GT(count, 1000U);
  EXPECT_LE(count * sizeof(control::PeerMessage), ControlStream::kKeptBytesMax);
  EXPECT_EQ(a.kept().size(), count);
  EXPECT_TRUE(a.is_full());
  for (const control::PeerMessage& message : a.kept()) EXPECT_EQ(b.Take(message), Verdict::kNew);
  EXPECT_EQ(a.Take(Beat(b)), Verdict::kNew);
  control::PeerMessage late = SaidDone(1);
  EXPECT_FALSE(a.Number(late)) << "one was refused: whatever comes after it would leave a hole";
}

TEST(ControlStream, ManyThatWereTakenAreReportedWithoutAHeartbeat) {
  ControlStream a, b;
  std::uint64_t seq = 0;
  while (!b.MustAcknowledge()) ASSERT_EQ(b.Take(Sent(a, ++seq)), Verdict::kNew);
  EXPECT_EQ(seq, ControlStream::kUnacknowledgedMax);
  EXPECT_EQ(a.Take(Beat(b)), Verdict::kNew);
  EXPECT_FALSE(b.MustAcknowledge());
}

}  // namespace
}  // namespace ringway::links
