// Properties of a lane, whichever thread moves its bytes.
#include "daemon/net/lane.h"

#include <array>
#include <cstring>

#include "daemon/net/lane_threads.h"
#include "tests/daemon/net/lane_fixture.h"

namespace ringway::net {
namespace {

// The parameter: how many lane threads there are.
class LaneTest : public LaneFixture, public ::testing::WithParamInterface<std::size_t> {
 protected:
  void SetUp() override { Start(Make()); }
  std::shared_ptr<Lane> Make() { return threads_.MakeLane(kLabel, kPayloadBytesMax); }

  LaneThreads threads_{context_, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Threads, LaneTest, ::testing::Values(0, 1));

TEST_P(LaneTest, FramesSplitAtEveryByteArriveWhole) {
  const auto first = Pattern(40, 1);
  const auto second = Pattern(200, 2);
  auto bytes = FrameBytes(first);
  const auto more = FrameBytes(second);
  bytes.insert(bytes.end(), more.begin(), more.end());
  for (const auto kind : {RecordingLaneSink::Kind::kDirect, RecordingLaneSink::Kind::kScratch}) {
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

TEST_P(LaneTest, LargePayloadsPassThroughBothWays) {
  for (const auto kind : {RecordingLaneSink::Kind::kDirect, RecordingLaneSink::Kind::kScratch}) {
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

TEST_P(LaneTest, EmptyPayloadsAreReported) {
  sink_.kind = RecordingLaneSink::Kind::kScratch;
  WriteAll(other_.get(), FrameBytes({}));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_TRUE(sink_.payloads[0].empty());
}

TEST_P(LaneTest, DiscardedPayloadsAreSkippedWithoutJudgement) {
  sink_.kind = RecordingLaneSink::Kind::kDiscard;
  auto bytes = FrameBytes(Pattern(700 * 1024, 5));
  bytes.back() ^= std::byte{1};  // its source may have changed: nobody cares
  Feed(bytes);
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 1; }));
  sink_.kind = RecordingLaneSink::Kind::kDirect;
  const auto next = Pattern(10, 6);
  Feed(FrameBytes(next));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], next);
}

TEST_P(LaneTest, CorruptHeaderClosesTheLaneOnce) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{28}, std::size_t{87}}) {
    lane_->Close();
    sink_ = {};
    Start(Make());
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

TEST_P(LaneTest, CorruptPayloadClosesTheLane) {
  auto bytes = FrameBytes(Pattern(16, 1));
  bytes.back() ^= std::byte{1};
  WriteAll(other_.get(), bytes);
  ASSERT_TRUE(RunUntil([&] { return !sink_.closed.empty(); }));
  EXPECT_EQ(sink_.closed[0], "payload fails its checksum");
}

TEST_P(LaneTest, RefusedHeaderClosesTheLane) {
  sink_.refuse = true;
  WriteAll(other_.get(), FrameBytes(Pattern(16, 1)));
  ASSERT_TRUE(RunUntil([&] { return !sink_.closed.empty(); }));
  EXPECT_EQ(sink_.closed[0], "refused by the test");
}

TEST_P(LaneTest, ClosedByItsOwnerNeverCallsBack) {
  WriteAll(other_.get(), FrameBytes(Pattern(16, 1)));
  lane_->Close();
  Settle();
  EXPECT_TRUE(sink_.headers.empty());
  EXPECT_TRUE(sink_.closed.empty());
}

TEST_P(LaneTest, SendsHeaderAndPayloadAndHoldsTheMemoryUntilThen) {
  const auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  links::Outbound outbound = Outbound(payload);
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

TEST_P(LaneTest, HalfSentFrameLetsGoOfItsMemoryWhenTheOtherSideEnds) {
  auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  links::Outbound outbound = Outbound(payload);
  payload.reset();
  EXPECT_FALSE(lane_->Send(std::move(outbound)));
  EXPECT_FALSE(alive.expired());
  other_.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_FALSE(lane_->idle());
  ASSERT_TRUE(RunUntil([&] { return alive.expired(); }));
}

TEST_P(LaneTest, BytesReadBeforeTheStartCount) {
  const auto bytes = FrameBytes(Pattern(20, 1));
  lane_->Close();
  Start(Make(), std::span(bytes).first(95));
  WriteAll(other_.get(), std::span(bytes).subspan(95));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], Pattern(20, 1));
}

TEST_P(LaneTest, AnythingMayHaveBeenReadBeforeTheStart) {
  const auto payload = Pattern(100'000, 1);
  const auto bytes = FrameBytes(payload);
  lane_->Close();
  Start(Make(), std::span(bytes).first(70'000));
  WriteAll(other_.get(), std::span(bytes).subspan(70'000));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], payload);
}

TEST_P(LaneTest, SinkMayCloseTheLaneWithinAnyCall) {
  for (const bool at_header : {true, false}) {
    lane_->Close();
    sink_ = {};
    Start(Make());
    (at_header ? sink_.at_header : sink_.at_payload) = [this] { lane_->Close(); };
    auto bytes = FrameBytes(Pattern(16, 1));
    bytes.insert(bytes.end(), bytes.begin(), bytes.end());
    WriteAll(other_.get(), bytes);
    ASSERT_TRUE(RunUntil([&] { return IsClosed(other_.get()); }));
    Settle();
    EXPECT_EQ(sink_.headers.size(), 1U);
    EXPECT_EQ(sink_.payloads.size(), at_header ? 0U : 1U);
    EXPECT_TRUE(sink_.closed.empty());
  }
}

// Group after group begins a frame on each of its lanes, more than its share of the buffers, and stalls.
TEST_P(LaneTest, HalfReadFramesOfSomeGroupsHoldUpNoOther) {
  sink_.kind = RecordingLaneSink::Kind::kScratch;
  constexpr std::array<std::uint32_t, 6> kLanes = {50, 14, 5, 3, 2, 2};
  for (const std::size_t size : {std::size_t{1000}, ScratchPool::kSmallBytes + 1}) {
    const auto frame = FrameBytes(Pattern(size, 1));
    std::vector<std::shared_ptr<Lane>> stalled;
    std::vector<UniqueFd> others;
    for (std::uint64_t group = 1; group <= kLanes.size(); ++group) {
      sink_.payloads.clear();
      for (std::uint32_t lane = 0; lane < kLanes[group - 1]; ++lane) {
        Start(threads_.MakeLane({.link = {.other = PeerId(2), .lane = LaneId(lane)}, .self = PeerId(group)},
                                kPayloadBytesMax));
        WriteAll(other_.get(), std::span(frame).first(frame.size() / 2));
        stalled.push_back(std::move(lane_));
        others.push_back(std::move(other_));
      }
      Settle();
      Start(threads_.MakeLane({.link = {.other = PeerId(2), .lane = LaneId(0)}, .self = PeerId(100 + group)},
                              kPayloadBytesMax));
      Feed(frame);
      ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; })) << group << " groups of frames of " << size;
      lane_->Close();
    }
    for (const auto& lane : stalled) lane->Close();
  }
}

TEST_P(LaneTest, CodecScratchHoldsWhatTheLaneCarries) {
  EXPECT_EQ(threads_.MakeLane(kLabel, 1024)->codec_scratch().size(), 1024U);
  EXPECT_EQ(lane_->codec_scratch().size(), kPayloadBytesMax);
}

}  // namespace
}  // namespace ringway::net
