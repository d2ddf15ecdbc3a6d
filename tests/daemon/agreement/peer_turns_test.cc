// Segments that share the lanes of a pair: none that waits is held up for ever by a stream of others.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <utility>

#include "proto/collective/grid.h"
#include "proto/lane_roles.h"
#include "tests/daemon/agreement/duo.h"

namespace ringway::agreement {
namespace {

constexpr std::uint32_t kSmallLane = 0;
constexpr std::uint32_t kLargeLane = 1;
constexpr int kRounds = 2000;

class PeerTurnsTest : public DuoTest {
 protected:
  // Each returns the token, which is the same at both.
  std::uint64_t Reduce(std::uint32_t channel, std::uint32_t priority, std::uint64_t bytes) {
    Submission submission;
    submission.spec.channel = channel;
    submission.spec.priority = priority;
    submission.descriptor.kind = OpKind::kAllReduce;
    return Submit({submission, submission}, bytes);
  }
  std::uint64_t SendToSecond(std::uint32_t tag, std::uint64_t bytes) {
    std::array<Submission, 2> submissions;
    for (const std::size_t index : {0, 1}) {
      submissions[index].descriptor.kind = index == 0 ? OpKind::kSend : OpKind::kRecv;
      submissions[index].spec.root = IdOf(1 - index).value;
      submissions[index].spec.tag = tag;
    }
    return Submit(std::move(submissions), bytes);
  }
  bool IsDone(std::uint64_t token) const { return nodes_[0].done.contains(token) && nodes_[1].done.contains(token); }
  // `begin` begins another one: a few are always in flight.
  template <typename Begin>
  void KeepUp(std::deque<std::uint64_t>& stream, const Begin& begin) {
    std::erase_if(stream, [this](std::uint64_t token) { return IsDone(token); });
    while (stream.size() < 8) stream.push_back(begin());
  }
  // The next frame of each, on this lane. Returns whether the first had one.
  bool Exchange(std::uint32_t lane) {
    bool of_first = false;
    for (const std::size_t from : {0, 1}) {
      const std::uint32_t bytes_max = lane == kSmallLane ? kSmallLanePayloadBytes : kPayloadBytesMax;
      Frame frame{LaneOf(1 - from, lane), {}, {}};
      if (!Node(from).NextSegment(LaneOf(from, lane), bytes_max, codec_scratch_, frame.out)) continue;
      of_first = of_first || from == 0;
      frame.header = DecodeSegmentHeader(frame.out.header).value();
      Receive(1 - from, frame);
    }
    return of_first;
  }

 private:
  std::uint64_t Submit(std::array<Submission, 2> submissions, std::uint64_t bytes) {
    ++tokens_;
    for (const std::size_t index : {0, 1}) {
      Submission& submission = submissions[index];
      submission.token = tokens_;
      submission.descriptor.dtype = DType::kU8;
      submission.descriptor.count = bytes;
      submission.buffers = buffers::BuffersOf(nodes_[index].input, nodes_[index].result, bytes);
      EXPECT_TRUE(Node(index).Submit(std::move(submission), now_).ok());
    }
    Drain();
    return tokens_;
  }

  std::uint64_t tokens_ = 0;
};

TEST_F(PeerTurnsTest, LowPriorityEndsBesideAnEndlessStreamOfHigherOnes) {
  Install(2, {}, collective::kSegmentBytesMin);
  const std::uint64_t low = Reduce(/*channel=*/0, /*priority=*/0, kBufferBytes);
  std::deque<std::uint64_t> high;
  std::uint32_t channels = 0;
  for (int round = 0; round < kRounds && !IsDone(low); ++round) {
    KeepUp(high, [&] { return Reduce(1 + channels++ % 4, 9, 2000); });
    ASSERT_TRUE(Exchange(kLargeLane));
  }
  EXPECT_TRUE(IsDone(low));
}

// Lanes are asked in turn, as in a pump that finds all of them idle.
TEST_F(PeerTurnsTest, MessagesOfEveryStreamEndBesideEndlessOperationsAndMessages) {
  Install(2, {}, 2 * kSmallLanePayloadBytes);
  const std::uint64_t large = SendToSecond(/*tag=*/7, kBufferBytes);
  const std::uint64_t small = SendToSecond(/*tag=*/8, 100);
  std::deque<std::uint64_t> operations;
  std::deque<std::uint64_t> messages;
  for (int round = 0; round < kRounds && !(IsDone(large) && IsDone(small)); ++round) {
    KeepUp(operations, [&] { return Reduce(1, 0, 200'000); });
    KeepUp(messages, [&] { return SendToSecond(1, 100); });
    ASSERT_TRUE(Exchange(kLargeLane));
    ASSERT_TRUE(Exchange(kSmallLane));
  }
  EXPECT_TRUE(IsDone(large));
  EXPECT_TRUE(IsDone(small));
}

}  // namespace
}  // namespace ringway::agreement
