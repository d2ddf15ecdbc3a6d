// The cost of a pair's ticks: counters of lanes that cannot have changed are not read again. And what becomes of the
// lanes' connections at its end.
#include "daemon/runtime/pair_transport.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/net/lane_threads.h"
#include "proto/lane_roles.h"
#include "proto/segment_header.h"
#include "tests/daemon/net/lane_fixture.h"
#include "tests/proto/stream/memory_stream.h"

namespace ringway::daemon {
namespace {

constexpr PeerId kOther{2};
constexpr std::size_t kLanes = 32;
constexpr std::size_t kSmall = SmallLanes(kLanes);

class PairTransportTest : public testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const auto lane = threads_.MakeLane({.link = {.other = kOther, .lane = LaneId(i)}, .self = {}},
                                          i < kSmall ? kSmallLanePayloadBytes : kPayloadBytesMax);
      pair_.TakeLane(lane, kLanes);
      net::MemoryPair ends;
      lane->Start(std::move(ends.a), &sink_);
      others_.push_back(std::move(ends));
    }
    (void)Tick();  // the first look is at all of them
  }
  void TearDown() override {
    pair_.Close();
    context_.poll();
  }

  // A segment on the first large lane.
  void SendOne() {
    std::size_t budget = 1;
    bool sent = false;
    (void)pair_.Pump(budget, now_, [&](net::Lane& lane) -> std::size_t {
      if (lane.send_payload_bytes_max() != kPayloadBytesMax || std::exchange(sent, true)) return 0;
      (void)lane.Send({.header = {}, .payload = payload_, .keep = {}});
      return payload_.size();
    });
    context_.poll();
  }
  // Returns how many lanes' counters were read.
  std::size_t Tick() {
    std::size_t before = 0;
    std::size_t after = 0;
    for (const net::MemoryPair& other : others_) before += other.a_to_b->looks();
    now_ += std::chrono::milliseconds(100);
    (void)pair_.Sample(true, now_);
    for (const net::MemoryPair& other : others_) after += other.a_to_b->looks();
    return after - before;
  }

  asio::io_context context_{1};
  net::LaneThreads threads_{context_, 0};
  net::RecordingLaneSink sink_;
  flow::HostFlow host_;
  std::size_t may_retire_ = 0;
  std::size_t asked_ = 0;
  PairTransport pair_{&host_, {.self = PeerId(1), .other = kOther}, [this](LaneId) -> net::Lane::Keep {
                        if (asked_++ >= may_retire_) return nullptr;
                        return [](std::unique_ptr<net::Stream>) {};
                      }};
  std::vector<net::MemoryPair> others_;
  std::vector<std::byte> payload_ = std::vector<std::byte>(1000);
  TimePoint now_{std::chrono::seconds(1)};
};

TEST_F(PairTransportTest, OnlyLanesThatMayHaveMovedAreReadAgain) {
  EXPECT_EQ(Tick(), 0U) << "a pair that carries nothing costs nothing";
  SendOne();
  EXPECT_EQ(Tick(), kLanes) << "none was read before";
  SendOne();
  EXPECT_EQ(Tick(), kSmall + 1);
}

TEST_F(PairTransportTest, ALaneInThePlaceOfAnotherIsRead) {
  SendOne();
  (void)Tick();
  ASSERT_TRUE(pair_.CloseLane(LaneId(kLanes - 1)));
  const auto lane =
      threads_.MakeLane({.link = {.other = kOther, .lane = LaneId(kLanes - 1)}, .self = {}}, kPayloadBytesMax);
  pair_.TakeLane(lane, kLanes);
  net::MemoryPair ends;
  lane->Start(std::move(ends.a), &sink_);
  others_.push_back(std::move(ends));
  SendOne();
  EXPECT_EQ(Tick(), kSmall + 2);
}

// A connection that waits for its other end to retire, too, holds a descriptor meanwhile.
TEST_F(PairTransportTest, LanesThatMayNotRetireAreClosed) {
  may_retire_ = 3;
  pair_.Retire();
  context_.poll();
  std::size_t closed = 0;
  for (const net::MemoryPair& other : others_) {
    std::array<std::byte, 2 * kSegmentHeaderBytes> bytes{};
    const net::StreamIo first = other.b->Read(bytes);  // an end frame, if it retires
    closed += first.kind == net::StreamIo::Kind::kEnd ? 1 : 0;
  }
  EXPECT_EQ(asked_, kLanes);
  EXPECT_EQ(closed, kLanes - 3);
}

}  // namespace
}  // namespace ringway::daemon
