#include "daemon/net/stream_lane.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/daemon/net/lane_fixture.h"

namespace ringway::net {
namespace {

class StreamLaneTest : public LaneFixture {
 protected:
  void SetUp() override { Open(pool_); }
  std::shared_ptr<Lane> Open(ScratchPool& pool) {
    Start(std::make_shared<StreamLane>(context_, pool, kLabel, kPayloadBytesMax));
    return lane_;
  }

  // Descriptors that any epoll of this process watches.
  static std::size_t Watched() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
      std::ifstream info(entry.path());
      for (std::string line; std::getline(info, line);) count += line.starts_with("tfd:");
    }
    return count;
  }

  ScratchPool pool_;
};

TEST_F(StreamLaneTest, AttemptThatDiesMidPayloadStopsBeingWritten) {
  const auto payload = Pattern(100 * 1024, 7);
  const auto bytes = FrameBytes(payload);
  Feed(std::span(bytes).first(50 * 1024));
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 1; }));
  Settle();
  sink_.live = false;
  const auto first = sink_.target;
  Feed(std::span(bytes).subspan(50 * 1024));
  sink_.live = true;
  Feed(FrameBytes(Pattern(3, 8)));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], Pattern(3, 8));
  EXPECT_TRUE(std::all_of(first->begin() + 51 * 1024, first->end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(StreamLaneTest, HalfWrittenFrameAndEndReleaseTheTarget) {
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

TEST_F(StreamLaneTest, ExhaustedScratchHoldsTheLaneUntilABufferReturns) {
  ScratchPool pool({.small_count = 1, .large_count = 1});
  Open(pool);
  sink_.kind = RecordingLaneSink::Kind::kScratch;
  Scratch taken = pool.Acquire(pool.AccountOf(kLabel.self), 10);
  ASSERT_TRUE(taken);
  WriteAll(other_.get(), FrameBytes(Pattern(16, 1)));
  ASSERT_TRUE(RunUntil([&] { return sink_.headers.size() == 1; }));
  Settle();
  EXPECT_TRUE(sink_.payloads.empty());
  taken.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], Pattern(16, 1));
  EXPECT_TRUE(pool.Acquire(pool.AccountOf(kLabel.self), 10)) << "the lane gave its buffer back";
  lane_->Close();
}

TEST_F(StreamLaneTest, LaneThatDiesWaitingForScratchPassesItsTurnOn) {
  ScratchPool pool({.small_count = 1, .large_count = 1});
  sink_.kind = RecordingLaneSink::Kind::kScratch;
  Scratch taken = pool.Acquire(pool.AccountOf(kLabel.self), 10);
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

// Else the event loop would report events for a lane that no longer exists.
TEST_F(StreamLaneTest, ClosedLaneIsNotWatchedThoughAnotherHoldsItsConnection) {
  auto [ours, theirs] = StreamPair();
  const auto another = ours->SharePath();
  const std::size_t before = Watched();
  const auto lane = std::make_shared<StreamLane>(context_, pool_, kLabel, kPayloadBytesMax);
  lane->Start(std::move(ours), &sink_);
  EXPECT_EQ(Watched(), before + 1);
  lane->Close();
  EXPECT_EQ(Watched(), before);
}

}  // namespace
}  // namespace ringway::net
