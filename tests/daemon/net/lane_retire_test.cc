// The connections of lanes that have ended: released between frames, or closed.
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "daemon/net/lane_threads.h"
#include "tests/daemon/net/lane_fixture.h"
#include "tests/proto/stream/memory_stream.h"
#include "tests/sanitized.h"

namespace ringway::net {
namespace {

// What a retired lane has released, on whatever thread.
class Released {
 public:
  Lane::Keep Keep() {
    return [this](std::unique_ptr<Stream> stream) {
      const std::scoped_lock lock(mutex_);
      ++calls_;
      stream_ = std::move(stream);
    };
  }
  int calls() const {
    const std::scoped_lock lock(mutex_);
    return calls_;
  }
  // REQUIRES: called.
  std::unique_ptr<Stream>& stream() { return stream_; }

 private:
  mutable std::mutex mutex_;
  int calls_ = 0;
  std::unique_ptr<Stream> stream_;
};

// The parameter: how many lane threads there are.
class LaneRetireTest : public LaneFixture, public ::testing::WithParamInterface<std::size_t> {
 protected:
  void SetUp() override {}
  std::shared_ptr<Lane> Make() { return threads_.MakeLane(kLabel, kPayloadBytesMax); }
  std::shared_ptr<Lane> Begin(std::unique_ptr<Stream> stream, LaneSink& sink) {
    auto lane = Make();
    lane->Start(std::move(stream), &sink);
    return lane;
  }
  static std::vector<std::byte> EndFrame() {
    SegmentHeader header;
    header.kind = SegmentKind::kEnd;
    std::vector<std::byte> out(kSegmentHeaderBytes);
    EncodeSegmentHeader(header, std::span(out).first<kSegmentHeaderBytes>());
    return out;
  }
  // What one end writes arrives at the other one, and nothing before it.
  static void ExpectBetweenFrames(Stream& from, Stream& to) {
    const std::string text = "the next user's";
    ASSERT_EQ(from.Write(std::as_bytes(std::span(text))).bytes, text.size());
    EXPECT_EQ(UnreadOf(to), text);
  }

  LaneThreads threads_{context_, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Threads, LaneRetireTest, ::testing::Values(0, 1));

// In some turns one side retires in the middle of what both send, and the other when it hears of it.
TEST_P(LaneRetireTest, ConnectionIsReleasedBetweenFramesWhateverWasUnderWay) {
  constexpr std::array<std::size_t, 4> kPieces = {1, 7, 5000, MemoryFaults::kNever};
  for (std::uint64_t seed = 1; seed <= TurnsOf(200); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const MemoryFaults faults{.seed = seed, .capacity = 4096, .piece_max = kPieces[random() % 4], .stall_percent = 20};
    MemoryPair pair({.a_to_b = faults, .b_to_a = faults});
    std::array<RecordingLaneSink, 2> sinks;
    for (auto& sink : sinks)
      sink.kind = random() % 2 == 0 ? RecordingLaneSink::Kind::kDirect : RecordingLaneSink::Kind::kScratch;
    const std::array lanes = {Begin(std::move(pair.a), sinks[0]), Begin(std::move(pair.b), sinks[1])};
    std::array<std::weak_ptr<std::vector<std::byte>>, 2> alive;
    for (std::size_t i = 0; i < 2; ++i) {
      if (random() % 4 == 0) continue;
      auto payload = std::make_shared<std::vector<std::byte>>(Pattern(random() % 40'000, static_cast<unsigned>(seed)));
      alive[i] = payload;
      (void)lanes[i]->Send(Outbound(payload));
    }
    for (std::uint64_t turn = random() % 40; turn > 0; --turn) {
      context_.restart();
      context_.poll_one();
    }
    std::array<Released, 2> released;
    const bool both = random() % 2 == 0;
    sinks[1].at_closed = [&] { lanes[1]->Retire(released[1].Keep()); };
    lanes[0]->Retire(released[0].Keep());
    if (both) lanes[1]->Retire(released[1].Keep());
    ASSERT_TRUE(RunUntil([&] { return released[0].calls() == 1 && released[1].calls() == 1; }));
    ASSERT_TRUE(RunUntil([&] { return alive[0].expired() && alive[1].expired(); }));
    ASSERT_TRUE(released[0].stream() != nullptr && released[1].stream() != nullptr);
    EXPECT_TRUE(sinks[0].closed.empty());
    EXPECT_EQ(sinks[1].closed.size(), both ? 0U : 1U);
    auto& [a, b] = released;
    const auto lanes_again = std::array{Begin(std::move(a.stream()), sinks[0]), Begin(std::move(b.stream()), sinks[1])};
    const std::size_t before = sinks[1].payloads.size();
    (void)lanes_again[0]->Send(Outbound(std::make_shared<std::vector<std::byte>>(Pattern(100, 3))));
    ASSERT_TRUE(RunUntil([&] { return sinks[1].payloads.size() == before + 1; }));
    EXPECT_EQ(sinks[1].payloads.back(), Pattern(100, 3));
    for (const auto& lane : lanes_again) lane->Close();
    Settle();
  }
}

TEST_P(LaneRetireTest, WhatCameBeforeTheOtherSidesEndIsReportedAndWhatFollowsIsTheNextUsers) {
  Start(Make());
  auto bytes = FrameBytes(Pattern(5000, 1));
  const auto end = EndFrame();
  bytes.insert(bytes.end(), end.begin(), end.end());
  for (const char c : std::string("hello")) bytes.push_back(static_cast<std::byte>(c));
  Released released;
  sink_.at_closed = [&] {
    EXPECT_FALSE(lane_->idle());
    lane_->Retire(released.Keep());
  };
  WriteAll(other_.get(), bytes);
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_EQ(sink_.payloads.size(), 1U);
  ASSERT_TRUE(RunUntil([&] { return released.calls() == 1; }));
  ASSERT_NE(released.stream(), nullptr);
  EXPECT_EQ(UnreadOf(*released.stream()), "hello");
  EXPECT_EQ(ReadAvailable(other_.get()).size(), kSegmentHeaderBytes) << "its own end";
  lane_ = nullptr;
}

TEST_P(LaneRetireTest, OwnerThatOnlyClosesAfterTheOtherSidesEndEndsTheConnection) {
  Start(Make());
  WriteAll(other_.get(), EndFrame());
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  lane_ = nullptr;
  EXPECT_TRUE(RunUntil([&] { return IsClosed(other_.get()); }));
}

TEST_P(LaneRetireTest, FramesThatStillArriveAreSkippedAndTheirBuffersReturned) {
  Start(Make());
  sink_.kind = RecordingLaneSink::Kind::kScratch;
  const auto bytes = FrameBytes(Pattern(300 * 1024, 1));
  Feed(std::span(bytes).first(1000));
  Settle();
  Released released;
  lane_->Retire(released.Keep());
  Feed(std::span(bytes).subspan(1000));
  for (int i = 0; i < 100; ++i) Feed(FrameBytes(Pattern(100, 2)));
  Feed(EndFrame());
  ASSERT_TRUE(RunUntil([&] { return released.calls() == 1; }));
  EXPECT_NE(released.stream(), nullptr);
  EXPECT_TRUE(sink_.payloads.empty());
  EXPECT_TRUE(sink_.closed.empty());
  lane_ = nullptr;
}

TEST_P(LaneRetireTest, ConnectionThatEndsMeanwhileIsReportedAsNone) {
  Start(Make());
  Released released;
  lane_->Retire(released.Keep());
  other_.Reset();
  ASSERT_TRUE(RunUntil([&] { return released.calls() == 1; }));
  EXPECT_EQ(released.stream(), nullptr);
  EXPECT_TRUE(sink_.closed.empty());
  lane_ = nullptr;
}

TEST_P(LaneRetireTest, OtherSideThatSaysNothingIsWaitedForOnlySoLong) {
  Start(Make());
  auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  (void)lane_->Send(Outbound(std::exchange(payload, nullptr)));
  Released released;
  lane_->Retire(released.Keep());
  ASSERT_TRUE(RunUntil([&] { return released.calls() == 1; }));
  EXPECT_EQ(released.stream(), nullptr);
  EXPECT_TRUE(RunUntil([&] { return alive.expired(); }));
  ASSERT_TRUE(RunUntil([&] {
    (void)ReadAvailable(other_.get());
    return IsClosed(other_.get());
  }));
  lane_ = nullptr;
}

TEST_P(LaneRetireTest, LaneThatHasFailedReleasesNothing) {
  Start(Make());
  Released released;
  sink_.at_closed = [&] { lane_->Retire(released.Keep()); };
  other_.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  ASSERT_TRUE(RunUntil([&] { return released.calls() == 1; }));
  EXPECT_EQ(released.stream(), nullptr);
  lane_ = nullptr;
}

TEST_P(LaneRetireTest, CountersOfAnEarlierLaneAreNotItsOwn) {
  MemoryPair pair;
  std::array<RecordingLaneSink, 2> sinks;
  const std::array lanes = {Begin(std::move(pair.a), sinks[0]), Begin(std::move(pair.b), sinks[1])};
  (void)lanes[0]->Send(Outbound(std::make_shared<std::vector<std::byte>>(Pattern(1000, 1))));
  ASSERT_TRUE(RunUntil([&] { return sinks[1].payloads.size() == 1; }));
  EXPECT_EQ(lanes[0]->traffic().delivered_bytes, kSegmentHeaderBytes + 1000);
  std::array<Released, 2> released;
  for (std::size_t i = 0; i < 2; ++i) lanes[i]->Retire(released[i].Keep());
  ASSERT_TRUE(RunUntil([&] { return released[0].calls() == 1 && released[1].calls() == 1; }));
  ExpectBetweenFrames(*released[0].stream(), *released[1].stream());
  const auto next = Begin(std::move(released[0].stream()), sinks[0]);
  EXPECT_EQ(next->traffic().delivered_bytes, 0U);
  next->Close();
  Settle();
}

}  // namespace
}  // namespace ringway::net
