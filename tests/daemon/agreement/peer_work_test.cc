// Copies in slices, and what a peer does without room, of a Peer that is given its views and frames by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <variant>

#include "daemon/agreement/peer.h"
#include "proto/local_abi.h"
#include "tests/daemon/buffers/buffers_of.h"

namespace ringway::agreement {
namespace {

constexpr PeerId kSelf(1);
constexpr PeerId kOtherPeer(2);
constexpr std::uint64_t kSlice = 64 << 10;
constexpr Duration kHeartbeat = std::chrono::milliseconds(500);

control::ViewFor ViewOf(const std::vector<PeerId>& members, std::uint32_t counter, std::uint64_t retained_bytes_max) {
  control::ViewFor message;
  message.set_peer(kSelf.value);
  control::View& view = *message.mutable_view();
  view.set_epoch(Epoch::Of(1, counter).value);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    control::PeerInfo& info = *view.add_members();
    info.set_peer_id(members[rank].value);
    info.set_name("p" + std::to_string(members[rank].value));
    info.set_address("127.0.0.1:1");
    view.add_ring(rank);
  }
  view.set_min_world(1);
  view.mutable_plan()->set_retained_bytes_max(retained_bytes_max);
  return message;
}

// Submits a trainer's operations and keeps the outcomes that are reported to it.
class PeerWorkTest : public testing::Test {
 protected:
  struct Memory {
    std::vector<std::byte> input;
    std::vector<std::byte> result;
  };

  void Make(PeerOptions options) {
    options.slice_bytes = kSlice;
    peer_.emplace(kSelf, "g", options);
    control::Candidates candidates;
    candidates.set_peer(kSelf.value);
    candidates.set_formed(true);
    control::PeerInfo& info = *candidates.add_others();
    info.set_peer_id(kOtherPeer.value);
    info.set_address("127.0.0.1:1");
    peer_->OnCandidates(candidates, now_);
    peer_->OnLinkUp({kOtherPeer, true, {}}, {}, now_);
    peer_->OnLinkUp({kOtherPeer, false, LaneId(0)}, {.lanes = 1, .generation = 1}, now_);
    Take();
  }

  void Install(const std::vector<PeerId>& members, std::uint32_t counter, std::uint64_t retained_bytes_max = 0) {
    peer_->OnView(ViewOf(members, counter, retained_bytes_max), now_);
    Take();
  }

  void Submit(std::uint64_t bytes, bool staged = false) {
    const std::uint64_t token = memory_.size();
    Memory& memory = memory_.emplace_back();
    for (std::uint64_t i = 0; i < bytes; ++i) memory.input.push_back(static_cast<std::byte>(i * 7 + token));
    memory.result.resize(bytes);
    Submission submission;
    submission.token = token;
    submission.descriptor = {OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, bytes};
    submission.buffers = buffers::BuffersOf(memory.input, memory.result, bytes, staged ? 0 : bytes);
    ASSERT_TRUE(peer_->Submit(std::move(submission), now_).ok());
    Take();
  }

  // Carries out the actions as the shell would.
  void Take() {
    heartbeats_ = 0;
    for (Action& action : peer_->TakeActions()) {
      if (const auto* complete = std::get_if<Complete>(&action)) {
        EXPECT_EQ(complete->outcome.code, Code::kOk);
        reported_.insert(complete->token);
        reported_bytes_ += memory_[complete->token].result.size();
        EXPECT_EQ(memory_[complete->token].result, memory_[complete->token].input) << "of a world of one";
      } else if (const auto* said = std::get_if<ToPeer>(&action)) {
        if (said->message.has_heartbeat() && said->to == kOtherPeer) ++heartbeats_;
        if (said->message.has_resend()) resends_.push_back(said->message.resend());
      }
    }
  }

  // One slice, then a message of the other, then the timer. Returns whether a heartbeat was sent.
  bool WorkAndTick() {
    peer_->Work();
    Take();
    now_ += kHeartbeat;
    control::PeerMessage alive;
    alive.mutable_heartbeat();
    EXPECT_TRUE(peer_->OnPeerMessage(kOtherPeer, alive, now_).ok());
    peer_->Tick(now_);
    Take();
    return heartbeats_ > 0;
  }

  TimePoint now_{};
  std::optional<Peer> peer_;
  std::deque<Memory> memory_;
  std::set<std::uint64_t> reported_;
  std::uint64_t reported_bytes_ = 0;
  int heartbeats_ = 0;
  std::vector<control::Resend> resends_;
};

TEST_F(PeerWorkTest, HeartbeatsGoOnWhileALargeCopyIsMadeAlone) {
  Make({});
  Install({kSelf}, 1);
  constexpr std::uint64_t kSlices = 50;
  Submit(kSlices * kSlice);
  EXPECT_TRUE(reported_.empty()) << "one slice at most in the event that submits it";
  for (std::uint64_t slice = 2; slice <= kSlices; ++slice) {
    ASSERT_TRUE(peer_->HasWork());
    ASSERT_TRUE(reported_.empty()) << "slice " << slice;
    EXPECT_TRUE(WorkAndTick()) << "slice " << slice;
  }
  EXPECT_EQ(reported_.size(), 1u);
  EXPECT_FALSE(peer_->HasWork());
}

TEST_F(PeerWorkTest, HeartbeatsGoOnWhileRetainedResultsAreCopiedToTheirTrainer) {
  Make({});
  Install({kSelf}, 1, /*retained_bytes_max=*/32 * kSlice);
  Submit(32 * kSlice);
  for (int slice = 2; slice <= 2 * 32; ++slice) {  // into the copy, then out of it
    ASSERT_TRUE(reported_.empty()) << "slice " << slice;
    EXPECT_TRUE(WorkAndTick());
  }
  EXPECT_EQ(reported_.size(), 1u);
}

TEST_F(PeerWorkTest, GroupThatShrinksToOneCopiesItsManyOperationsInSlices) {
  Make({});
  Install({kSelf, kOtherPeer}, 1);
  constexpr std::uint64_t kOps = 100;
  for (std::uint64_t i = 0; i < kOps; ++i) Submit(kSlice / 2);
  EXPECT_TRUE(reported_.empty());
  Install({kSelf}, 2);
  std::uint64_t before = reported_bytes_;
  EXPECT_LE(before, kSlice);
  while (reported_.size() < kOps) {
    ASSERT_TRUE(peer_->HasWork());
    (void)WorkAndTick();
    EXPECT_LE(reported_bytes_ - before, kSlice);
    ASSERT_GT(reported_bytes_, before);
    before = reported_bytes_;
  }
}

TEST_F(PeerWorkTest, SmallOperationIsReportedInTheEventThatSubmitsIt) {
  Make({});
  Install({kSelf}, 1);
  Submit(1000);
  EXPECT_EQ(reported_.size(), 1u);
  EXPECT_FALSE(peer_->HasWork());
}

TEST_F(PeerWorkTest, StagedInputIsCopiedAsFarAsItIsThere) {
  Make({});
  Install({kSelf}, 1);
  Submit(10 * kSlice, /*staged=*/true);
  EXPECT_FALSE(peer_->HasWork());
  peer_->OnStaged(0, 5 * kSlice);
  while (peer_->HasWork()) (void)WorkAndTick();
  EXPECT_TRUE(reported_.empty());
  peer_->OnStaged(0, 10 * kSlice);
  while (peer_->HasWork()) (void)WorkAndTick();
  EXPECT_EQ(reported_.size(), 1u);
}

TEST_F(PeerWorkTest, WithoutRoomForItsCopyAnOperationGoesStraightToTheTrainersMemory) {
  const auto budget = std::make_shared<MemoryBudget>(4 * kSlice);
  Make({.memory = std::make_shared<MemoryShare>(budget)});
  Install({kSelf, kOtherPeer}, 1, /*retained_bytes_max=*/8 * kSlice);
  Submit(kSlice);
  EXPECT_EQ(budget->used(MemoryUse::kResults), kSlice);
  Submit(8 * kSlice);
  EXPECT_EQ(budget->used(MemoryUse::kResults), kSlice);
  Install({kSelf}, 2, /*retained_bytes_max=*/8 * kSlice);
  while (peer_->HasWork()) (void)WorkAndTick();
  EXPECT_EQ(reported_.size(), 2u);
  peer_.reset();
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(PeerWorkTest, EarlySegmentThatFoundNoRoomIsAskedForWhenItsOperationIsSubmitted) {
  const auto budget = std::make_shared<MemoryBudget>(6000);
  Make({.memory = std::make_shared<MemoryShare>(budget)});
  Install({kSelf, kOtherPeer}, 1);
  SegmentHeader header;
  header.epoch = Epoch::Of(1, 1);
  header.op = {ChannelId(0), 1};
  header.descriptor = {OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 8000};
  header.chunk = 1;
  header.payload_bytes = 3000;
  const LinkId lane{kOtherPeer, false, LaneId(0)};
  auto inbound = peer_->OnHeader(lane, header);
  ASSERT_TRUE(inbound.ok());
  EXPECT_EQ(inbound.value().kind, Inbound::Kind::kDirect);
  EXPECT_EQ(budget->used(MemoryUse::kEarly), 3000u);
  ASSERT_FALSE(peer_->OnPayload(lane, std::vector<std::byte>(3000), header.payload_hash + 1).ok());
  EXPECT_EQ(budget->used(), 0u) << "what failed its checksum gives its room back";
  header.payload_bytes = 3001;  // more than the session's share
  inbound = peer_->OnHeader(lane, header);
  ASSERT_TRUE(inbound.ok());
  EXPECT_EQ(inbound.value().kind, Inbound::Kind::kDiscard);
  EXPECT_EQ(budget->used(), 0u);
  EXPECT_TRUE(resends_.empty());
  Submit(8000);
  ASSERT_EQ(resends_.size(), 1u);
  EXPECT_EQ(resends_[0].seq(), 1u);
  EXPECT_EQ(resends_[0].chunk(), 1u);
  EXPECT_EQ(resends_[0].epoch(), header.epoch.value);
}

}  // namespace
}  // namespace ringway::agreement
