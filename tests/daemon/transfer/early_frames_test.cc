#include "daemon/transfer/early_frames.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

namespace ringway::transfer {
namespace {

constexpr PeerId kA{1};
constexpr PeerId kB{2};
constexpr OpName kOp{ChannelId(), 1};

SegmentHeader Header(std::uint32_t bytes, Epoch epoch = Epoch(1), std::uint32_t segment = 0) {
  SegmentHeader header;
  header.op = kOp;
  header.epoch = epoch;
  header.segment = segment;
  header.payload_bytes = bytes;
  return header;
}

class EarlyFramesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kOverhead = EarlyRoom::kOverheadBytes;

  MemoryShare share_{std::make_shared<MemoryBudget>(2000)};
  EarlyRoom room_{&share_};
  EarlyFrames frames_;
};

TEST_F(EarlyFramesTest, RoomIsFreeAgainWhenItsFrameGoes) {
  {
    const EarlyFrame frame = room_.Reserve(kA, Header(100));
    ASSERT_NE(frame.payload, nullptr);
    EXPECT_EQ(room_.BytesFrom(kA), 100 + kOverhead);
    EXPECT_EQ(room_.BytesFrom(kB), 0U);
    EXPECT_EQ(share_.used(MemoryUse::kEarly), 100U);
  }
  EXPECT_EQ(room_.bytes(), 0U);
  EXPECT_EQ(share_.used(MemoryUse::kEarly), 0U);
}

TEST_F(EarlyFramesTest, MovedFrameIsChargedOnce) {
  EarlyFrame first = room_.Reserve(kA, Header(100));
  EarlyFrame second = std::move(first);
  EXPECT_EQ(room_.bytes(), 100 + kOverhead);
  first = room_.Reserve(kB, Header(50));
  second = std::move(first);
  EXPECT_EQ(room_.BytesFrom(kB), 50 + kOverhead);
  EXPECT_EQ(share_.used(MemoryUse::kEarly), room_.bytes() - (room_.BytesFrom(kA) > 0 ? 2 : 1) * kOverhead);
}

TEST_F(EarlyFramesTest, WithoutRoomInMemoryTheHeaderAloneIsKeptAndCharged) {
  std::optional<EarlyFrame> first = room_.Reserve(kA, Header(600));
  ASSERT_NE(first->payload, nullptr);
  const EarlyFrame refused = room_.Reserve(kB, Header(600));
  EXPECT_EQ(refused.payload, nullptr);
  EXPECT_EQ(room_.BytesFrom(kB), 600 + kOverhead);
  first.reset();
  EXPECT_NE(room_.Reserve(kB, Header(600)).payload, nullptr);
}

TEST_F(EarlyFramesTest, TakenInTheOrderInWhichTheyCameAndTheirRoomIsFree) {
  frames_.Add(room_.Reserve(kA, Header(10, Epoch(1), 7)));
  frames_.Add(room_.Reserve(kA, Header(10, Epoch(1), 5)));
  frames_.Add(room_.Reserve(kA, Header(10, Epoch(2), 6)));
  const std::optional<EarlyFrame> first = frames_.TakeNext(kOp, Epoch(1));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->header.segment, 7U);
  EXPECT_EQ(room_.bytes(), 2 * (10 + kOverhead)) << "it is being used: its sum may need the room";
  EXPECT_EQ(frames_.TakeNext(kOp, Epoch(1))->header.segment, 5U);
  EXPECT_FALSE(frames_.TakeNext(kOp, Epoch(1)));
  EXPECT_TRUE(frames_.Has(kOp, Epoch(2)));
}

TEST_F(EarlyFramesTest, FramesOfOldViewsAreDropped) {
  for (const std::uint64_t epoch : {1, 2, 3}) frames_.Add(room_.Reserve(kA, Header(10, Epoch(epoch))));
  frames_.DropBelow(Epoch(2));
  EXPECT_FALSE(frames_.Has(kOp, Epoch(1)));
  EXPECT_EQ(room_.bytes(), 2 * (10 + kOverhead));
  frames_.Drop(kOp, Epoch(2));
  EXPECT_FALSE(frames_.Has(kOp, Epoch(2)));
  EXPECT_TRUE(frames_.Has(kOp, Epoch(3)));
}

}  // namespace
}  // namespace ringway::transfer
