// Two peers whose frames are carried by hand, and a trainer of one that writes to what is in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <variant>

#include "daemon/agreement/peer.h"
#include "proto/hash.h"
#include "tests/daemon/buffers/buffers_of.h"

namespace ringway::agreement {
namespace {

constexpr std::uint64_t kBufferBytes = 300'000;
constexpr std::uint32_t kDuoLanes = 4;

PeerId IdOf(std::size_t index) { return PeerId(index + 1); }

// A peer, its trainer's memory and what came of it.
struct DuoNode {
  std::uint64_t said = 0;  // number of its last message
  explicit DuoNode(std::size_t index) : peer(IdOf(index), "g"), input(kBufferBytes), result(kBufferBytes) {
    for (std::size_t i = 0; i < kBufferBytes; ++i) input[i] = static_cast<std::byte>(i * 7 + index);
  }
  bool Owns(const std::byte* at) const {
    const auto in = [at](const std::vector<std::byte>& memory) {
      return at >= memory.data() && at < memory.data() + memory.size();
    };
    return in(input) || in(result);
  }
  Peer peer;
  std::vector<std::byte> input, result;
  std::optional<Code> told, ended;
  std::vector<std::string> events;
  std::vector<control::Report> reports;
};

class PeerBuffersTest : public testing::Test {
 protected:
  PeerBuffersTest() {
    for (const std::size_t index : {0, 1}) {
      control::Candidates candidates;
      candidates.set_peer(IdOf(index).value);
      candidates.set_formed(true);
      control::PeerInfo& info = *candidates.add_others();
      info.set_peer_id(IdOf(1 - index).value);
      info.set_address("127.0.0.1:1");
      Node(index).OnCandidates(candidates, now_);
      Node(index).OnLinkUp({IdOf(1 - index), true, {}}, {}, now_);
      for (std::uint32_t lane = 0; lane < kDuoLanes; ++lane) {
        Node(index).OnLinkUp(LaneOf(index, lane), {.lanes = kDuoLanes, .generation = 1}, now_);
      }
    }
    Install(1, nullptr);
  }

  Peer& Node(std::size_t index) { return nodes_[index].peer; }
  LinkId LaneOf(std::size_t index, std::uint32_t lane) const { return {IdOf(1 - index), false, LaneId(lane)}; }

  void Install(std::uint32_t counter, const control::Verdict* verdict) {
    for (const std::size_t index : {0, 1}) {
      control::ViewFor message;
      message.set_peer(IdOf(index).value);
      control::View& view = *message.mutable_view();
      view.set_epoch(Epoch::Of(1, counter).value);
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        control::PeerInfo& info = *view.add_members();
        info.set_peer_id(IdOf(rank).value);
        info.set_name("p" + std::to_string(rank));
        info.set_address("127.0.0.1:1");
        view.add_ring(rank);
      }
      view.set_min_world(1);
      view.mutable_plan()->set_small_bytes_max(1000);
      view.mutable_plan()->set_eager_bytes_max(1 << 20);
      if (verdict != nullptr) *view.add_verdicts() = *verdict;
      Node(index).OnView(message, now_);
    }
    Drain();
  }

  void SubmitBoth(std::uint64_t bytes = kBufferBytes) {
    for (DuoNode& node : nodes_) {
      Submission submission;
      submission.descriptor = {OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, bytes};
      submission.buffers = buffers::BuffersOf(node.input, node.result, bytes);
      ASSERT_TRUE(node.peer.Submit(std::move(submission), now_).ok());
    }
    Drain();
  }

  // Carries out what the two ask for, until they ask for nothing.
  void Drain() {
    for (bool again = true; std::exchange(again, false);) {
      for (const std::size_t index : {0, 1}) {
        for (Action& action : Node(index).TakeActions()) {
          again = true;
          CarryOut(index, action);
        }
      }
    }
  }

  void CarryOut(std::size_t index, const Action& action) {
    DuoNode& node = nodes_[index];
    if (const auto* said = std::get_if<ToPeer>(&action)) {
      node.said = std::max(node.said, said->message.number());
      EXPECT_TRUE(Node(1 - index).OnPeerMessage(IdOf(index), said->message, now_).ok());
    } else if (const auto* report = std::get_if<ToMaster>(&action)) {
      if (report->message.has_report()) node.reports.push_back(report->message.report());
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      node.told = complete->code;
    } else if (const auto* ended = std::get_if<Ended>(&action)) {
      node.ended = ended->code;
    } else if (const auto* note = std::get_if<Note>(&action)) {
      node.events.push_back(note->event);
    }
  }

  struct Frame {
    LinkId lane;  // as its receiver names it
    SegmentHeader header;
    Outbound out;
  };
  std::optional<Frame> Next(std::size_t from, std::uint32_t lane) {
    Frame frame{LaneOf(1 - from, lane), {}, {}};
    if (!Node(from).NextSegment(LaneOf(from, lane), kPayloadBytesMax, {}, frame.out)) return std::nullopt;
    frame.header = DecodeSegmentHeader(frame.out.header).value();
    return frame;
  }
  // The kind of memory that it was read into. `between`: when the payload is in memory there and is not judged yet.
  Inbound::Kind Receive(std::size_t to, const Frame& frame, const std::function<void(std::span<std::byte>)>& between) {
    const auto inbound = Node(to).OnHeader(frame.lane, frame.header);
    EXPECT_TRUE(inbound.ok());
    if (inbound.value().kind != Inbound::Kind::kDiscard) {
      std::vector<std::byte> scratch(frame.out.payload.begin(), frame.out.payload.end());
      std::span<std::byte> payload(scratch);
      if (inbound.value().kind == Inbound::Kind::kDirect) {
        std::copy(scratch.begin(), scratch.end(), inbound.value().target);
        payload = {inbound.value().target, scratch.size()};
      }
      if (between) between(payload);
      if (const Status status = Node(to).OnPayload(frame.lane, payload, Hash64(payload)); !status.ok()) {
        Node(to).OnLinkDown(frame.lane, status.text(), now_);
      }
    }
    Drain();
    return inbound.value().kind;
  }
  Inbound::Kind Receive(std::size_t to, const Frame& frame) { return Receive(to, frame, nullptr); }
  static void Flip(std::span<std::byte> payload) { payload[payload.size() / 2] ^= std::byte{1}; }
  static bool IsFinal(const DuoNode& sender, const Frame& frame) {
    const std::byte* const at = frame.out.payload.data();
    return at >= sender.result.data() && at < sender.result.data() + kBufferBytes;
  }

  // All frames, on this lane, until there are none or `stop` says so of one, which is returned.
  std::optional<Frame> Run(std::uint32_t lane, const std::function<bool(std::size_t, const Frame&)>& stop) {
    for (bool again = true; std::exchange(again, false);) {
      for (const std::size_t from : {0, 1}) {
        while (auto frame = Next(from, lane)) {
          again = true;
          if (stop && stop(from, *frame)) return frame;
          Receive(1 - from, *frame);
        }
      }
    }
    return std::nullopt;
  }
  std::optional<Frame> RunUntilFinalOfFirst(std::uint32_t lane) {
    return Run(lane, [&](std::size_t from, const Frame& frame) { return from == 0 && IsFinal(nodes_[0], frame); });
  }

  void ExpectRightSums() {
    for (const DuoNode& node : nodes_) {
      EXPECT_EQ(node.told, Code::kOk);
      for (std::size_t i = 0; i < kBufferBytes; ++i) {
        ASSERT_EQ(node.result[i], static_cast<std::byte>(i * 14 + 1)) << i;
      }
    }
  }
  bool Said(std::size_t index, const std::string& event) const {
    const std::vector<std::string>& events = nodes_[index].events;
    return std::find(events.begin(), events.end(), event) != events.end();
  }
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
    EXPECT_EQ(nodes_[index].told, Code::kBufferModified);
    EXPECT_EQ(nodes_[index].ended, Code::kBufferModified);
  }
  void ExpectNobodyLeaves() const {
    for (const std::size_t index : {0, 1}) {
      EXPECT_FALSE(Said(index, "buffer_modified"));
      EXPECT_TRUE(nodes_[index].reports.empty());
    }
  }

  TimePoint now_{std::chrono::seconds(1)};
  std::deque<DuoNode> nodes_{[] {
    std::deque<DuoNode> nodes;
    nodes.emplace_back(0);
    nodes.emplace_back(1);
    return nodes;
  }()};
};

TEST_F(PeerBuffersTest, UndisturbedFramesGiveRightSums) {
  SubmitBoth();
  (void)Run(0, nullptr);
  ExpectRightSums();
  ExpectNobodyLeaves();
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
  EXPECT_EQ(nodes_[0].told, Code::kOk);
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

// Small: told while the other still lacks its last segment. What the first has sent was used, or it were not complete.
TEST_F(PeerBuffersTest, RefusalOfAnOperationThatWasToldIsNotJudged) {
  SubmitBoth(/*bytes=*/1000);
  const auto frame = Next(0, 0);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(nodes_[0].Owns(frame->out.payload.data()));
  Receive(1, *frame);
  while (const auto other = Next(1, 1)) Receive(0, *other);
  ASSERT_EQ(nodes_[0].told, Code::kOk);
  ASSERT_FALSE(nodes_[1].told.has_value());
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
  Install(2, &verdict_);
  (void)Run(0, nullptr);
  ExpectRightSums();
  ExpectNobodyLeaves();
}

TEST_F(PeerBuffersFetchTest, HolderWhoseTrainerWroteToTheResultLeavesAndServesNothing) {
  CommitWithTheFirstAsHolder();
  Flip(nodes_[0].result);
  Install(2, &verdict_);
  (void)Run(0, nullptr);
  EXPECT_FALSE(nodes_[1].told.has_value());
  ExpectLeaves(0);
}

}  // namespace
}  // namespace ringway::agreement
