#include "daemon/net/lane.h"

#include <cstring>
#include <deque>
#include <vector>

#include "proto/hash.h"
#include "tests/daemon/net/net_fixture.h"

namespace ringway::net {
namespace {

std::vector<std::byte> Pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) & 0xff);
  return out;
}

// Puts payloads where the test says, and keeps what came.
class RecordingSink : public LaneSink {
 public:
  using Kind = LaneInbound::Kind;

  Result<LaneInbound> OnLaneHeader(const LaneLabel&, const SegmentHeader& header) override {
    headers.push_back(header);
    if (refuse) return Status(Code::kProtocol, "refused by the test");
    LaneInbound inbound;
    inbound.kind = kind;
    inbound.attempt = 7;
    if (kind == Kind::kDirect) {
      target = std::make_shared<std::vector<std::byte>>(header.payload_bytes);
      inbound.target = target->data();
      inbound.keep = target;
    }
    return inbound;
  }
  Status OnLanePayload(const LaneLabel&, std::span<const std::byte> payload) override {
    payloads.emplace_back(payload.begin(), payload.end());
    if (Hash64(payload) == headers.back().payload_hash) return Status::Ok();
    return {Code::kProtocol, "payload fails its checksum"};
  }
  bool IsAttemptLive(std::uint64_t attempt) override { return live && attempt == 7; }
  void OnLaneIdle() override { ++idle_calls; }
  void OnLaneClosed(const LaneLabel&, const std::string& why) override { closed.push_back(why); }

  Kind kind = Kind::kDirect;
  bool refuse = false;
  bool live = true;
  std::shared_ptr<std::vector<std::byte>> target;
  std::vector<SegmentHeader> headers;
  std::vector<std::vector<std::byte>> payloads;
  std::vector<std::string> closed;
  int idle_calls = 0;
};

class LaneTest : public NetTest {
 protected:
  void SetUp() override { Open(pool_); }
  void TearDown() override {
    if (lane_ != nullptr) lane_->Close();
    Settle();
  }
  std::shared_ptr<Lane> Open(ScratchPool& pool) {
    auto [ours, theirs] = StreamPair();
    lane_ = std::make_shared<Lane>(context_, pool, LaneLabel{PeerId(2), LaneId(1)}, kPayloadBytesMax);
    lane_->Start(std::move(ours), {}, &sink_);
    other_ = std::move(theirs);
    return lane_;
  }
  static std::array<std::byte, kSegmentHeaderBytes> HeaderOf(std::span<const std::byte> payload) {
    SegmentHeader header;
    header.epoch = Epoch::Of(1, 1);
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    header.payload_hash = Hash64(payload);
    std::array<std::byte, kSegmentHeaderBytes> out{};
    EncodeSegmentHeader(header, out);
    return out;
  }
  static std::vector<std::byte> FrameBytes(const std::vector<std::byte>& payload) {
    const auto header = HeaderOf(payload);
    std::vector<std::byte> out(header.begin(), header.end());
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
  }
  // Writes as much as the pipe takes, running the lane in between.
  void Feed(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(other_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0)
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      else if (errno != EAGAIN)
        return;
      Settle();
    }
  }

  RecordingSink sink_;
  ScratchPool pool_;
  std::shared_ptr<Lane> lane_;
  UniqueFd other_;
};

TEST_F(LaneTest, FramesSplitAtEveryByteArriveWhole) {
  const auto first = Pattern(40, 1);
  const auto second = Pattern(200, 2);
  auto bytes = FrameBytes(first);
  const auto more = FrameBytes(second);
  bytes.insert(bytes.end(), more.begin(), more.end());
  for (const auto kind : {RecordingSink::Kind::kDirect, RecordingSink::Kind::kScratch}) {
    sink_.kind = kind;
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      sink_.payloads.clear();
      WriteAll(other_.get(), std::span(bytes).first(cut));
      Settle();
      WriteAll(other_.get(), std::span(bytes).subspan(cut));
      ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 2; })) << "cut at " << cut;
      EXPECT_EQ(sink_.payloads[0], first);
      EXPECT_EQ(sink_.payloads[1], second);
    }
  }
  EXPECT_TRUE(sink_.closed.empty());
}

TEST_F(LaneTest, LargePayloadsPassThroughBothWays) {
  for (const auto kind : {RecordingSink::Kind::kDirect, RecordingSink::Kind::kScratch}) {
    sink_.kind = kind;
    for (const std::size_t size : {std::size_t{8 * 1024 - 88}, std::size_t{8 * 1024 - 87}, std::size_t{256 * 1024},
                                   std::size_t{256 * 1024 + 1}, std::size_t{kPayloadBytesMax}}) {
      sink_.payloads.clear();
      const auto payload = Pattern(size, 3);
      auto bytes = FrameBytes(payload);
      const auto tail = FrameBytes(Pattern(5, 4));
      bytes.insert(bytes.end(), tail.begin(), tail.end());
      Feed(bytes);
      ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 2; })) << size;
      EXPECT_EQ(sink_.payloads[0], payload) << size;
    }
  }
}

TEST_F(LaneTest, EmptyPayloadsAreReported) {
  sink_.kind = RecordingSink::Kind::kScratch;
  WriteAll(other_.get(), FrameBytes({}));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_TRUE(sink_.payloads[0].empty());
}

TEST_F(LaneTest, DiscardedPayloadsAreSkippedWithoutJudgement) {
  sink_.kind = RecordingSink::Kind::kDiscard;
  auto bytes = FrameBytes(Pattern(700 * 1024, 5));
  bytes.back() ^= std::byte{1};  // its source may have changed: nobody cares
  Feed(bytes);
  sink_.kind = RecordingSink::Kind::kDirect;
  const auto next = Pattern(10, 6);
  Feed(FrameBytes(next));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], next);
}

TEST_F(LaneTest, AttemptThatDiesMidPayloadStopsBeingWritten) {
  const auto payload = Pattern(100 * 1024, 7);
  const auto bytes = FrameBytes(payload);
  Feed(std::span(bytes).first(50 * 1024));
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 1; }));
  Settle();
  sink_.live = false;
  const auto before = *sink_.target;
  Feed(std::span(bytes).subspan(50 * 1024));
  sink_.live = true;
  Feed(FrameBytes(Pattern(3, 8)));
  // sink_.target is replaced by the next header; the first one's bytes past the cut stayed as they were.
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], Pattern(3, 8));
  EXPECT_TRUE(std::all_of(before.begin() + 51 * 1024, before.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(LaneTest, CorruptHeaderClosesTheLaneOnce) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{28}, std::size_t{87}}) {
    lane_->Close();
    sink_ = {};
    Open(pool_);
    auto bytes = FrameBytes(Pattern(16, 1));
    bytes[at] ^= std::byte{0x40};
    WriteAll(other_.get(), bytes);
    ASSERT_TRUE(RunUntil([&] { return !sink_.closed.empty(); })) << at;
    Settle();
    EXPECT_EQ(sink_.closed.size(), 1U);
    EXPECT_TRUE(sink_.payloads.empty());
    EXPECT_TRUE(IsClosed(other_.get()));
  }
}

TEST_F(LaneTest, CorruptPayloadClosesTheLane) {
  auto bytes = FrameBytes(Pattern(16, 1));
  bytes.back() ^= std::byte{1};
  WriteAll(other_.get(), bytes);
  ASSERT_TRUE(RunUntil([&] { return !sink_.closed.empty(); }));
  EXPECT_EQ(sink_.closed[0], "payload fails its checksum");
}

TEST_F(LaneTest, RefusedHeaderClosesTheLane) {
  sink_.refuse = true;
  WriteAll(other_.get(), FrameBytes(Pattern(16, 1)));
  ASSERT_TRUE(RunUntil([&] { return !sink_.closed.empty(); }));
  EXPECT_EQ(sink_.closed[0], "refused by the test");
}

TEST_F(LaneTest, HalfWrittenFrameAndEndReleaseTheTarget) {
  const auto bytes = FrameBytes(Pattern(1000, 1));
  WriteAll(other_.get(), std::span(bytes).first(500));
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 1; }));
  const std::weak_ptr<std::vector<std::byte>> target = sink_.target;
  sink_.target = nullptr;
  EXPECT_FALSE(target.expired()) << "the lane holds what it reads into";
  other_.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_TRUE(target.expired());
  EXPECT_TRUE(sink_.payloads.empty());
}

TEST_F(LaneTest, ClosedByItsOwnerNeverCallsBack) {
  WriteAll(other_.get(), FrameBytes(Pattern(16, 1)));
  lane_->Close();
  Settle();
  EXPECT_TRUE(sink_.headers.empty());
  EXPECT_TRUE(sink_.closed.empty());
}

TEST_F(LaneTest, ExhaustedScratchHoldsTheLaneUntilABufferReturns) {
  ScratchPool pool({.small_count = 1, .large_count = 1});
  Open(pool);
  sink_.kind = RecordingSink::Kind::kScratch;
  Scratch taken = pool.Acquire(10);
  ASSERT_TRUE(taken);
  WriteAll(other_.get(), FrameBytes(Pattern(16, 1)));
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 1; }));
  Settle();
  EXPECT_TRUE(sink_.payloads.empty());
  taken.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], Pattern(16, 1));
  EXPECT_TRUE(pool.Acquire(10)) << "the lane gave its buffer back";
  lane_->Close();
}

TEST_F(LaneTest, LaneThatDiesWaitingForScratchPassesItsTurnOn) {
  ScratchPool pool({.small_count = 1, .large_count = 1});
  sink_.kind = RecordingSink::Kind::kScratch;
  Scratch taken = pool.Acquire(10);
  const auto first = Open(pool);
  UniqueFd first_other = std::move(other_);
  WriteAll(first_other.get(), FrameBytes(Pattern(16, 1)));
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 1; }));
  const auto second = Open(pool);
  WriteAll(other_.get(), FrameBytes(Pattern(17, 2)));
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 2; }));
  first->Close();
  taken.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], Pattern(17, 2));
  second->Close();
}

TEST_F(LaneTest, SendsHeaderAndPayloadAndHoldsTheMemoryUntilThen) {
  const auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  LaneOutbound outbound{.header = HeaderOf(*payload), .payload = *payload, .keep = payload};
  const auto expected = FrameBytes(*payload);
  EXPECT_FALSE(lane_->Send(std::move(outbound))) << "a mebibyte does not fit a socket's buffer";
  EXPECT_FALSE(lane_->idle());
  std::string got;
  ASSERT_TRUE(RunUntil([&] {
    got += ReadAvailable(other_.get());
    return got.size() == expected.size();
  }));
  ASSERT_TRUE(RunUntil([&] { return sink_.idle_calls == 1; }));
  EXPECT_TRUE(lane_->idle());
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
  EXPECT_EQ(alive.use_count(), 1) << "only the test holds it now";
}

TEST_F(LaneTest, HalfSentFrameLetsGoOfItsMemoryWhenTheOtherSideEnds) {
  auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  LaneOutbound outbound{.header = HeaderOf(*payload), .payload = *payload, .keep = payload};
  payload.reset();
  EXPECT_FALSE(lane_->Send(std::move(outbound)));
  EXPECT_FALSE(alive.expired());
  other_.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(lane_->idle());
}

TEST_F(LaneTest, BytesReadBeforeTheStartCount) {
  auto [ours, theirs] = StreamPair();
  const auto bytes = FrameBytes(Pattern(20, 1));
  const auto lane = std::make_shared<Lane>(context_, pool_, LaneLabel{PeerId(2), LaneId(0)}, 1024);
  lane->Start(std::move(ours), std::span(bytes).first(95), &sink_);
  WriteAll(theirs.get(), std::span(bytes).subspan(95));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], Pattern(20, 1));
  EXPECT_EQ(lane->codec_scratch().size(), 1024U);
  lane->Close();
}

}  // namespace
}  // namespace ringway::net
