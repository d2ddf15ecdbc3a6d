#include "daemon/net/threaded_lane.h"

#include <asio/post.hpp>
#include <future>
#include <optional>

#include "daemon/net/lane_threads.h"
#include "tests/daemon/net/lane_fixture.h"

namespace ringway::net {
namespace {

class ThreadedLaneTest : public LaneFixture {
 protected:
  void SetUp() override { Start(Make()); }
  void TearDown() override {
    LaneFixture::TearDown();
    Resume();
    thread_.Stop();  // before home_ ends
  }
  std::shared_ptr<Lane> Make() { return std::make_shared<ThreadedLane>(home_, thread_, kLabel, kPayloadBytesMax); }
  // The lane thread does nothing more until Resume.
  void Hold() {
    std::promise<void> held;
    asio::post(thread_.context(), [&held, until = resume_.emplace().get_future().share()] {
      held.set_value();
      until.wait();
    });
    held.get_future().wait();
  }
  void Resume() {
    if (resume_) resume_->set_value();
    resume_.reset();
  }
  // The lane thread has done what it was rung for until now.
  void Pass() {
    std::promise<void> passed;
    asio::post(thread_.context(), [&] { passed.set_value(); });
    passed.get_future().wait();
  }
  // Returns how many of the pool's small buffers the lane's peer can have.
  std::size_t FreeBuffers() {
    std::promise<std::size_t> counted;
    asio::post(thread_.context(), [&] {
      std::vector<Scratch> taken;
      const auto account = thread_.pool().AccountOf(kLabel.self);
      while (taken.emplace_back(thread_.pool().Acquire(account, 1))) continue;
      counted.set_value(taken.size() - 1);
    });
    return counted.get_future().get();
  }
  // Writes as many of `bytes` as the connection takes while nobody runs the owner's loop; returns the number.
  std::size_t Offer(std::span<const std::byte> bytes) {
    std::size_t done = 0;
    for (int refusals = 0; done < bytes.size() && refusals < 100;) {
      const auto rest = bytes.subspan(done);
      const ssize_t sent = ::send(other_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) done += static_cast<std::size_t>(sent);
      if (sent < 0) ++refusals;
      Pass();
    }
    return done;
  }

  static constexpr std::size_t kBuffers = FairPool::ShareOf(ScratchPoolOptions().small_count);

  LaneThread thread_;
  Doorbell home_{context_};
  std::optional<std::promise<void>> resume_;
};

TEST_F(ThreadedLaneTest, NothingIsReportedOfAPayloadBeforeItIsWhole) {
  const auto payload = Pattern(100 * 1024, 7);
  const auto bytes = FrameBytes(payload);
  ASSERT_EQ(Offer(std::span(bytes).first(50 * 1024)), 50 * 1024U);
  Settle();
  EXPECT_TRUE(sink_.headers.empty()) << "so its target may still be given up";
  Feed(std::span(bytes).subspan(50 * 1024));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 1; }));
  EXPECT_EQ(sink_.payloads[0], payload);
}

TEST_F(ThreadedLaneTest, OwnerThatTakesNothingHoldsTheSenderUp) {
  std::vector<std::byte> bytes;
  const auto frame = FrameBytes(Pattern(64 * 1024, 3));
  constexpr std::size_t kFrames = 4 * kBuffers;
  for (std::size_t i = 0; i < kFrames; ++i) bytes.insert(bytes.end(), frame.begin(), frame.end());
  const std::size_t taken = Offer(bytes);
  EXPECT_LT(taken, bytes.size());
  EXPECT_EQ(FreeBuffers(), 0U);
  EXPECT_TRUE(sink_.payloads.empty());
  Feed(std::span(bytes).subspan(taken));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == kFrames; }));
  ASSERT_TRUE(RunUntil([&] { return FreeBuffers() == kBuffers; }));
}

TEST_F(ThreadedLaneTest, EmptyPayloadsAreBoundedToo) {
  std::vector<std::byte> bytes;
  const auto frame = FrameBytes({});
  constexpr std::size_t kFrames = 100'000;
  for (std::size_t i = 0; i < kFrames; ++i) bytes.insert(bytes.end(), frame.begin(), frame.end());
  const std::size_t taken = Offer(bytes);
  EXPECT_LT(taken, bytes.size());
  Feed(std::span(bytes).subspan(taken));
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == kFrames; }));
}

TEST_F(ThreadedLaneTest, ClosedWithFramesNotTakenReturnsTheirBuffers) {
  sink_.kind = RecordingLaneSink::Kind::kScratch;
  const auto frame = FrameBytes(Pattern(1000, 3));
  for (int i = 0; i < 5; ++i) WriteAll(other_.get(), frame);
  ASSERT_TRUE(RunUntil([&] { return FreeBuffers() == kBuffers - 5 || !sink_.headers.empty(); }));
  lane_->Close();
  ASSERT_TRUE(RunUntil([&] { return FreeBuffers() == kBuffers; }));
  EXPECT_TRUE(sink_.closed.empty());
}

TEST_F(ThreadedLaneTest, SinkThatClosesAmongManyFramesGetsNoMore) {
  sink_.at_payload = [this] {
    if (sink_.payloads.size() == 2) lane_->Close();
  };
  const auto frame = FrameBytes(Pattern(10, 3));
  std::vector<std::byte> bytes;
  for (int i = 0; i < 5; ++i) bytes.insert(bytes.end(), frame.begin(), frame.end());
  WriteAll(other_.get(), bytes);
  ASSERT_TRUE(RunUntil([&] { return sink_.payloads.size() == 2; }));
  ASSERT_TRUE(RunUntil([&] { return FreeBuffers() == kBuffers; }));
  Settle();
  EXPECT_EQ(sink_.payloads.size(), 2U);
}

TEST_F(ThreadedLaneTest, WhatCameWholeBeforeTheEndIsReportedBeforeIt) {
  const auto frame = FrameBytes(Pattern(200 * 1024, 3));
  constexpr std::size_t kFrames = 8;
  static_assert(kFrames * 200 * 1024 > Lane::kTurnBytes + 200 * 1024);
  for (std::size_t i = 0; i < kFrames; ++i) ASSERT_EQ(Offer(frame), frame.size());
  other_.Reset();
  for (int i = 0; i < 8; ++i) Pass();  // its loop sees the end, reads and reports it
  std::size_t at_end = 0;
  sink_.at_closed = [&] { at_end = sink_.payloads.size(); };
  ASSERT_TRUE(RunUntil([&] { return !sink_.closed.empty(); }));
  Settle();
  EXPECT_EQ(at_end, kFrames);
  EXPECT_EQ(sink_.closed.size(), 1U);
}

TEST_F(ThreadedLaneTest, LaneThreadThatHangsHoldsUpNobody) {
  Hold();
  auto payload = std::make_shared<std::vector<std::byte>>(Pattern(1000, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  EXPECT_FALSE(lane_->Send(Outbound(payload)));
  EXPECT_FALSE(lane_->idle());
  payload.reset();
  lane_->Close();
  EXPECT_TRUE(IsClosed(other_.get())) << "the other end need not wait for that thread";
  lane_.reset();
  Settle();
  EXPECT_FALSE(alive.expired()) << "that thread might be reading it";
  Resume();
  ASSERT_TRUE(RunUntil([&] { return alive.expired(); }));
  EXPECT_TRUE(sink_.closed.empty());
}

TEST_F(ThreadedLaneTest, HalfSentSegmentIsHeldUntilTheFarEndHasClosed) {
  auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  EXPECT_FALSE(lane_->Send(Outbound(payload)));
  payload.reset();
  std::byte first{};
  ASSERT_TRUE(RunUntil([&] { return ::recv(other_.get(), &first, 1, MSG_DONTWAIT) == 1; }));
  Hold();
  lane_->Close();
  Settle();
  EXPECT_FALSE(alive.expired());
  Resume();
  ASSERT_TRUE(RunUntil([&] { return alive.expired(); }));
  EXPECT_EQ(sink_.idle_calls, 0);
}

TEST_F(ThreadedLaneTest, SendIntoALaneThatHasJustFailedIsLetGoOf) {
  other_.Reset();
  Pass();
  auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
  const std::weak_ptr<std::vector<std::byte>> alive = payload;
  ASSERT_TRUE(lane_->idle()) << "the owner does not know yet";
  EXPECT_FALSE(lane_->Send(Outbound(payload)));
  payload.reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  ASSERT_TRUE(RunUntil([&] { return alive.expired(); }));
  EXPECT_FALSE(lane_->idle());
}

TEST_F(ThreadedLaneTest, EndsInTheMiddleOfEverythingLetGoOfAll) {
  std::weak_ptr<std::vector<std::byte>> alive;
  {
    asio::io_context home;
    LaneThreads threads(home, 2);
    auto payload = std::make_shared<std::vector<std::byte>>(Pattern(kPayloadBytesMax, 9));
    alive = payload;
    const auto frame = FrameBytes(Pattern(5000, 1));
    for (std::uint32_t i = 0; i < 4; ++i) {
      lane_->Close();
      Start(threads.MakeLane({.link = {.other = PeerId(2), .lane = LaneId(i)}, .self = {}}, kPayloadBytesMax));
      EXPECT_FALSE(lane_->Send(Outbound(payload)));
      WriteAll(other_.get(), std::span(frame).first(2000 + i));
    }
    lane_->Close();
    lane_.reset();
  }
  EXPECT_TRUE(alive.expired());
}

TEST_F(ThreadedLaneTest, SmallLanesStayOnTheOwnersLoop) {
  LaneThreads threads(context_, 2);
  EXPECT_NE(std::dynamic_pointer_cast<StreamLane>(threads.MakeLane(kLabel, 64 * 1024)), nullptr);
  EXPECT_NE(std::dynamic_pointer_cast<ThreadedLane>(threads.MakeLane(kLabel, kPayloadBytesMax)), nullptr);
}

}  // namespace
}  // namespace ringway::net
