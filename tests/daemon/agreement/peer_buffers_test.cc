// A trainer, of one of two peers, that writes to what is in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "daemon/transfer/ready_index.h"
#include "proto/collective/grid.h"
#include "tests/daemon/agreement/duo.h"

namespace ringway::agreement {
namespace {

class PeerBuffersTest : public DuoTest {
 protected:
  // The one that did it leaves and says why; the other accuses nobody.
  void ExpectLeaves(std::size_t index) {
    now_ += std::chrono::milliseconds(100);
    Node(index).Tick(now_);
    Drain();
    EXPECT_TRUE(Said(index, "buffer_modified"));
    EXPECT_FALSE(Said(1 - index, "buffer_modified"));
    ASSERT_FALSE(nodes_[index].reports.empty());
    EXPECT_TRUE(nodes_[index].reports.back().leaving());
    EXPECT_EQ(nodes_[index].reports.back().lost_size(), 0);
    for (const control::Report& report : nodes_[1 - index].reports) EXPECT_EQ(report.lost_size(), 0);
    EXPECT_EQ(Node(index).Submit({}, now_).code(), Code::kBufferModified);
    Node(index).OnEvicted(Code::kLeft, "left the group");
    Drain();
    EXPECT_EQ(nodes_[index].reported, Code::kBufferModified);
    EXPECT_EQ(nodes_[index].ended, Code::kBufferModified);
  }
  void ExpectNobodyLeaves() const {
    for (const std::size_t index : {0, 1}) {
      EXPECT_FALSE(Said(index, "buffer_modified"));
      EXPECT_TRUE(nodes_[index].reports.empty());
    }
  }
};

TEST_F(PeerBuffersTest, UndisturbedFramesGiveRightSums) {
  SubmitBoth();
  (void)Run(0, nullptr);
  ExpectRightSums();
  ExpectNobodyLeaves();
}

TEST_F(PeerBuffersTest, SegmentsOfTheHigherPriorityAreSentFirst) {
  Install(2, {}, /*segment_bytes_max=*/collective::kSegmentBytesMin);
  for (DuoNode& node : nodes_) {
    for (const std::uint32_t priority : {0, 9, 5}) {
      Submission submission;
      submission.spec.channel = priority;
      submission.spec.priority = priority;
      submission.descriptor = {OpKind::kAllReduce, DType::kU8,       ReduceOp::kSum,
                               Codec::kNone,       Algorithm::kRing, kBufferBytes};
      submission.buffers = buffers::BuffersOf(node.input, node.result, kBufferBytes);
      ASSERT_TRUE(node.peer.Submit(std::move(submission), now_).ok());
    }
  }
  Drain();
  std::vector<std::uint32_t> channels;
  while (const auto frame = Next(0, 0)) channels.push_back(frame->header.op.channel.value);
  EXPECT_GT(channels.size(), 3u);
  EXPECT_EQ(std::set<std::uint32_t>(channels.begin(), channels.end()), (std::set<std::uint32_t>{0, 5, 9}));
  for (std::size_t i = transfer::ReadyIndex::kAgingPeriod - 1; i < channels.size();
       i += transfer::ReadyIndex::kAgingPeriod - 1) {
    EXPECT_EQ(channels[i], 0U) << "one of a lower priority, now and then";
    channels.erase(channels.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const auto due = [](std::uint32_t a, std::uint32_t b) { return a > b; };
  EXPECT_TRUE(std::is_sorted(channels.begin(), channels.end(), due));
}

TEST_F(PeerBuffersTest, InputThatIsWrittenToInFlightEndsItsPeer) {
  SubmitBoth();
  const auto frame = Next(0, 0);
  ASSERT_TRUE(frame);
  Flip({nodes_[0].input.data() + (frame->out.payload.data() - nodes_[0].input.data()), frame->out.payload.size()});
  Receive(1, *frame);
  ExpectLeaves(0);
}

TEST_F(PeerBuffersTest, OutputThatIsWrittenToInFlightEndsItsPeer) {
  SubmitBoth();
  const auto final = RunUntilFinalOfFirst(0);
  ASSERT_TRUE(final);
  Flip({nodes_[0].result.data() + (final->out.payload.data() - nodes_[0].result.data()), final->out.payload.size()});
  Receive(1, *final);
  ExpectLeaves(0);
}

TEST_F(PeerBuffersTest, SegmentThatTheLinkFlippedIsSentAgain) {
  SubmitBoth();
  const auto frame = Next(0, 0);
  ASSERT_TRUE(frame);
  Receive(1, *frame, Flip);
  (void)Run(1, nullptr);
  ExpectRightSums();
  ExpectNobodyLeaves();
}

TEST_F(PeerBuffersTest, FinishedSegmentThatTheLinkFlippedIsReadAgainAndNobodyLeaves) {
  SubmitBoth();
  const auto final = RunUntilFinalOfFirst(0);
  ASSERT_TRUE(final);
  Receive(1, *final, Flip);
  (void)Run(1, nullptr);
  ExpectRightSums();
  ExpectNobodyLeaves();
}

TEST_F(PeerBuffersTest, AfterAFailureSegmentsLeaveFromCopiesForAWhile) {
  SubmitBoth();
  auto frame = Next(0, 0);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(nodes_[0].Owns(frame->out.payload.data()));
  Receive(1, *frame, Flip);
  frame = Next(0, 1);
  ASSERT_TRUE(frame);
  EXPECT_FALSE(nodes_[0].Owns(frame->out.payload.data())) << "what the trainer writes now does not travel";
}

TEST_F(PeerBuffersTest, FinishedSegmentThatNoLongerFitsItsHashIsNotSentAgain) {
  SubmitBoth();
  const auto final = RunUntilFinalOfFirst(0);
  ASSERT_TRUE(final);
  const auto offset = final->out.payload.data() - nodes_[0].result.data();
  Receive(1, *final, Flip);  // the link, at first
  ExpectNobodyLeaves();
  Flip({nodes_[0].result.data() + offset, final->out.payload.size()});
  EXPECT_FALSE(Next(0, 1).has_value());
  ExpectLeaves(0);
}

TEST_F(PeerBuffersTest, LastSegmentThatNoLongerFitsItsHashIsNotSentAgainEither) {
  SubmitBoth(/*bytes=*/20'000);
  const auto final = RunUntilFinalOfFirst(0);
  ASSERT_TRUE(final);
  const auto offset = final->out.payload.data() - nodes_[0].result.data();
  Receive(1, *final, Flip);
  Flip({nodes_[0].result.data() + offset, final->out.payload.size()});
  EXPECT_FALSE(Next(0, 1).has_value());
  ExpectLeaves(0);
}

TEST_F(PeerBuffersTest, LaneThatJustBreaksIsNoEvidence) {
  SubmitBoth();
  const auto frame = Next(0, 0);
  ASSERT_TRUE(frame);
  Flip({nodes_[0].input.data() + (frame->out.payload.data() - nodes_[0].input.data()), frame->out.payload.size()});
  Node(1).OnLinkDown(frame->lane, "reset", now_);
  Drain();
  (void)Run(1, nullptr);
  EXPECT_EQ(nodes_[0].reported, Code::kOk);
  EXPECT_EQ(nodes_[0].result, nodes_[1].result);
  ExpectNobodyLeaves();
}

TEST_F(PeerBuffersTest, OutputThatChangesBeforeItsPayloadComesAgainEndsItsPeer) {
  SubmitBoth();
  const auto final = RunUntilFinalOfFirst(0);
  ASSERT_TRUE(final);
  EXPECT_EQ(Receive(1, *final, Flip), Inbound::Kind::kDirect);
  const auto again = Next(0, 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->header.chunk, final->header.chunk);
  const auto offset = final->out.payload.data() - nodes_[0].result.data();
  Flip({nodes_[1].result.data() + offset, 2});
  EXPECT_EQ(Receive(1, *again), Inbound::Kind::kScratch) << "not where its trainer may be writing";
  ExpectLeaves(1);
}

// A small operation is reported while the other peer still lacks its last segment. What the first has sent was used,
// else the operation would not be complete.
TEST_F(PeerBuffersTest, RefusalOfAnOperationThatWasReportedIsNotJudged) {
  SubmitBoth(/*bytes=*/1000);
  const auto frame = Next(0, 0);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(nodes_[0].Owns(frame->out.payload.data()));
  Receive(1, *frame);
  while (const auto other = Next(1, 1)) Receive(0, *other);
  ASSERT_EQ(nodes_[0].reported, Code::kOk);
  ASSERT_FALSE(nodes_[1].reported.has_value());
  std::fill(nodes_[0].input.begin(), nodes_[0].input.end(), std::byte{});
  control::PeerMessage closed;
  closed.mutable_lane_closed()->set_generation(1);
  closed.mutable_lane_closed()->set_refused(true);
  closed.set_number(nodes_[1].said + 1);
  EXPECT_TRUE(Node(0).OnPeerMessage(IdOf(1), closed, now_).ok());
  ExpectNobodyLeaves();
}

// The first is complete, the second lacks its last segment when the view ends.
class PeerBuffersFetchTest : public PeerBuffersTest {
 protected:
  void CommitWithTheFirstAsHolder() {
    SubmitBoth();
    const auto final = RunUntilFinalOfFirst(0);
    ASSERT_TRUE(final);
    while (const auto other = Next(1, 0)) Receive(0, *other);
    control::Verdict verdict;
    verdict.set_seq(1);
    verdict.set_result_epoch(Epoch::Of(1, 1).value);
    for (const std::size_t index : {0, 1}) verdict.add_contributors(IdOf(index).value);
    verdict.add_holders(IdOf(0).value);
    verdict_ = verdict;
  }
  control::Verdict verdict_;
};

TEST_F(PeerBuffersFetchTest, HolderServesWhatTheOthersHave) {
  CommitWithTheFirstAsHolder();
  Install(2, {verdict_});
  (void)Run(0, nullptr);
  ExpectRightSums();
  ExpectNobodyLeaves();
}

TEST_F(PeerBuffersFetchTest, HolderWhoseTrainerWroteToTheResultLeavesAndServesNothing) {
  CommitWithTheFirstAsHolder();
  Flip(nodes_[0].result);
  Install(2, {verdict_});
  (void)Run(0, nullptr);
  EXPECT_FALSE(nodes_[1].reported.has_value());
  ExpectLeaves(0);
}

}  // namespace
}  // namespace ringway::agreement
