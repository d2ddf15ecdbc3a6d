#include "daemon/transfer/frames_in.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tests/daemon/transfer/pair.h"

namespace ringway::transfer {
namespace {

class FramesInTest : public testing::Test, private BufferGuard::Listener {
 protected:
  static constexpr links::LinkId kLane{.other = Pair::kFrom, .control = false, .lane = {}};
  static constexpr links::LinkId kOtherLane{.other = Pair::kFrom, .control = false, .lane = LaneId(1)};

  FramesInTest() : sent_(pair_.Send()) {}

  bool IsWhole() const { return std::equal(pair_.input.begin(), pair_.input.end(), pair_.output.begin()); }

  Pair pair_;
  const Pair::Sent sent_;
  TimePoint now_{};
  BufferGuard guard_{now_, pair_.attempts, *this};
  FramesIn frames_{pair_.attempts, guard_};
  std::string modified_;

 private:
  void OnModified(const std::string& what, const std::string& buffer) override { modified_ = buffer + " of " + what; }
};

TEST_F(FramesInTest, ClaimedPayloadGoesIntoItsAttempt) {
  const Result<links::Inbound> inbound = frames_.Claim(kLane, sent_.header, pair_.receiver, Pair::kSender);
  ASSERT_TRUE(inbound.ok());
  ASSERT_EQ(inbound.value().kind, links::Inbound::Kind::kDirect);
  EXPECT_EQ(inbound.value().attempt, pair_.receiver.number());
  std::memcpy(inbound.value().target, sent_.payload.data(), sent_.payload.size());
  EXPECT_TRUE(FramesIn::IsIntact(*frames_.Find(kLane), sent_.payload, sent_.header.payload_hash));
  EXPECT_FALSE(FramesIn::IsIntact(*frames_.Find(kLane), sent_.payload, sent_.header.payload_hash + 1));
  EXPECT_EQ(&frames_.Accept(frames_.Take(kLane), sent_.payload), &pair_.receiver);
  EXPECT_EQ(frames_.Find(kLane), nullptr);
  EXPECT_TRUE(pair_.receiver.executor().complete());
  EXPECT_TRUE(IsWhole());
}

TEST_F(FramesInTest, ClaimIsFreeAgainWhenItsLaneCloses) {
  ASSERT_TRUE(frames_.Claim(kLane, sent_.header, pair_.receiver, Pair::kSender).ok());
  EXPECT_EQ(frames_.Claim(kOtherLane, sent_.header, pair_.receiver, Pair::kSender).value().kind,
            links::Inbound::Kind::kDiscard)
      << "it is on its way";
  frames_.DropAllOf(Pair::kFrom);
  EXPECT_EQ(frames_.Find(kLane), nullptr);
  EXPECT_EQ(frames_.Claim(kOtherLane, sent_.header, pair_.receiver, Pair::kSender).value().kind,
            links::Inbound::Kind::kDirect);
}

TEST_F(FramesInTest, AttemptThatEndsMeanwhileIsNotTouched) {
  ASSERT_TRUE(frames_.Claim(kLane, sent_.header, pair_.receiver, Pair::kSender).ok());
  pair_.receiver.End();
  EXPECT_FALSE(pair_.attempts.IsLive(frames_.Find(kLane)->attempt));
  frames_.Drop(kLane);
  EXPECT_EQ(frames_.Find(kLane), nullptr);
}

TEST_F(FramesInTest, PayloadThatFailedAndChangedBeforeItCameAgainIsTheTrainersFault) {
  ASSERT_TRUE(frames_.Claim(kLane, sent_.header, pair_.receiver, Pair::kSender).ok());
  frames_.Refuse(kLane);
  const Result<links::Inbound> again = frames_.Claim(kLane, sent_.header, pair_.receiver, Pair::kSender);
  EXPECT_EQ(again.value().kind, links::Inbound::Kind::kScratch) << "not where its trainer may be writing";
  pair_.output[0] = std::byte{99};
  frames_.Accept(frames_.Take(kLane), sent_.payload);
  EXPECT_EQ(modified_, "output of message 1 of channel 0, tag 0");
  EXPECT_TRUE(guard_.modified());
  EXPECT_TRUE(IsWhole());
}

TEST_F(FramesInTest, RefusedSourceThatHasChangedIsTheTrainersFaultAndAnUnchangedOneIsNot) {
  guard_.OnRefused(sent_.kept);
  EXPECT_FALSE(guard_.modified());
  pair_.input[5] = std::byte{99};
  guard_.OnRefused(sent_.kept);
  EXPECT_EQ(modified_, "input of message 1 of channel 0, tag 0");
}

TEST_F(FramesInTest, HeldFrameFeedsItsAttemptOnce) {
  EarlyRoom room(nullptr);
  EarlyFrame frame = room.Reserve(Pair::kFrom, sent_.header);
  const links::Inbound inbound = frames_.Hold(kLane, std::move(frame));
  ASSERT_EQ(inbound.kind, links::Inbound::Kind::kDirect);
  std::memcpy(inbound.target, sent_.payload.data(), sent_.payload.size());
  const FramesIn::Frame taken = frames_.Take(kLane);
  ASSERT_TRUE(taken.held);
  EXPECT_TRUE(FramesIn::Feed(pair_.receiver, taken.header, Pair::kSender, *taken.held->payload).value());
  EXPECT_TRUE(IsWhole());
  EXPECT_FALSE(FramesIn::Feed(pair_.receiver, taken.header, Pair::kSender, *taken.held->payload).value());
}

}  // namespace
}  // namespace ringway::transfer
