#include "daemon/agreement/message_table.h"

#include <gtest/gtest.h>

#include <memory>

#include "daemon/buffers/trainer_buffers.h"

namespace ringway::agreement {
namespace {

constexpr PeerId kMe{1};
constexpr PeerId kPartner{2};
constexpr PeerId kThird{3};

buffers::Submission Recv(PeerId from, std::uint32_t tag = 0, std::uint64_t token = 0) {
  buffers::Submission submission;
  submission.token = token;
  submission.descriptor.kind = OpKind::kRecv;
  submission.spec.root = from.value;
  submission.spec.tag = tag;
  submission.buffers = std::make_shared<buffers::TrainerBuffers>();
  return submission;
}

MessageName From(PeerId from, std::uint64_t seq, std::uint32_t tag = 0) {
  return {{from, kMe, ChannelId(0), tag}, seq};
}

SegmentHeader Header(std::uint32_t bytes) {
  SegmentHeader header;
  header.payload_bytes = bytes;
  return header;
}

class MessageTableTest : public testing::Test {
 protected:
  void Hold(const MessageName& name, Epoch epoch, std::uint32_t segment, std::uint32_t bytes) {
    EarlyMessage* early = table_.MakeEarly(name);
    ASSERT_NE(early, nullptr);
    early->epoch = epoch;
    early->frames.emplace(segment, room_.Reserve(name.stream.from, Header(bytes)));
  }

  transfer::EarlyRoom room_{nullptr};
  MessageTable table_{kMe};
};

TEST_F(MessageTableTest, MessagesOfAStreamAreNumberedInTheOrderOfSubmission) {
  EXPECT_EQ(table_.Add(Recv(kPartner)).name, From(kPartner, 1));
  EXPECT_EQ(table_.Add(Recv(kPartner, 7)).name, From(kPartner, 1, 7));
  EXPECT_EQ(table_.Add(Recv(kPartner)).name, From(kPartner, 2));
  EXPECT_EQ(table_.Add(Recv(kThird)).name, From(kThird, 1));
  buffers::Submission send = Recv(kPartner);
  send.descriptor.kind = OpKind::kSend;
  EXPECT_EQ(table_.Add(send).name, (MessageName{{kMe, kPartner, ChannelId(0), 0}, 1}));
}

TEST_F(MessageTableTest, AMessageIsOverOnceItIsErasedAndNotBeforeItIsSubmitted) {
  EXPECT_FALSE(table_.IsOver(From(kPartner, 1)));
  table_.Add(Recv(kPartner, 0, 5));
  EXPECT_FALSE(table_.IsOver(From(kPartner, 1)));
  ASSERT_NE(table_.FindToken(5), nullptr);
  table_.Erase(From(kPartner, 1));
  EXPECT_TRUE(table_.IsOver(From(kPartner, 1)));
  EXPECT_FALSE(table_.IsOver(From(kPartner, 2)));
  EXPECT_EQ(table_.FindToken(5), nullptr);
}

TEST_F(MessageTableTest, WhatOnePartnerSaysInAdvanceIsBounded) {
  for (std::uint64_t seq = 1; seq <= MessageTable::kEarlyMax; ++seq)
    ASSERT_NE(table_.MakeEarly(From(kPartner, seq)), nullptr);
  EXPECT_EQ(table_.MakeEarly(From(kPartner, MessageTable::kEarlyMax + 1)), nullptr);
  EXPECT_NE(table_.MakeEarly(From(kPartner, 1)), nullptr) << "known already";
  EXPECT_NE(table_.MakeEarly(From(kThird, 1)), nullptr);
  table_.ForgetEarly(From(kPartner, 1));
  EXPECT_NE(table_.MakeEarly(From(kPartner, MessageTable::kEarlyMax + 1)), nullptr);
}

TEST_F(MessageTableTest, StreamsAreBounded) {
  for (std::uint32_t tag = 0; tag < MessageTable::kStreamsMax; ++tag) {
    table_.Add(Recv(kPartner, tag));
    table_.Erase(From(kPartner, 1, tag));
  }
  EXPECT_EQ(table_.RoomFor(Recv(kPartner, MessageTable::kStreamsMax)).code(), Code::kInvalidArgument);
  EXPECT_TRUE(table_.RoomFor(Recv(kPartner, 0)).ok());
  table_.ForgetPeer(kPartner);
  EXPECT_TRUE(table_.RoomFor(Recv(kThird)).ok());
}

TEST_F(MessageTableTest, ThatAPartnerDoesNotCatchUpIsBounded) {
  for (std::uint64_t i = 0; i < MessageTable::kUnsettledMax; ++i) table_.AddUnsettled(kPartner);
  EXPECT_EQ(table_.RoomFor(Recv(kPartner)).code(), Code::kResourceExhausted);
  EXPECT_TRUE(table_.RoomFor(Recv(kThird)).ok());
  table_.Settle(kPartner);
  EXPECT_TRUE(table_.RoomFor(Recv(kPartner)).ok());
  table_.Settle(kThird);  // of whom nothing is unsettled
}

TEST_F(MessageTableTest, FramesOfAViewThatIsOverAreDroppedAndFailuresKept) {
  Hold(From(kPartner, 1), Epoch(4), 0, 100);
  Hold(From(kPartner, 2), Epoch(5), 0, 100);
  table_.MakeEarly(From(kPartner, 3))->failed = Status(Code::kCancelled, "x");
  table_.MakeEarly(From(kPartner, 4))->ready = MessageOffer{};
  EXPECT_EQ(room_.BytesFrom(kPartner), 2 * (100 + transfer::EarlyRoom::kOverheadBytes));
  table_.EndViewsBelow(Epoch(5));
  EXPECT_EQ(table_.FindEarly(From(kPartner, 1)), nullptr);
  EXPECT_EQ(table_.FindEarly(From(kPartner, 2))->frames.size(), 1U);
  EXPECT_NE(table_.FindEarly(From(kPartner, 3)), nullptr);
  EXPECT_EQ(table_.FindEarly(From(kPartner, 4)), nullptr);
  EXPECT_EQ(room_.bytes(), 100 + transfer::EarlyRoom::kOverheadBytes);
}

// Its window is that of one view.
TEST_F(MessageTableTest, APartnerThatHasMovedOnHasLeftItsFramesBehind) {
  EXPECT_TRUE(table_.MoveTo(kPartner, Epoch(4)));
  Hold(From(kPartner, 1), Epoch(4), 0, 100);
  Hold(From(kThird, 1), Epoch(4), 0, 100);
  EXPECT_TRUE(table_.MoveTo(kPartner, Epoch(5)));
  EXPECT_EQ(room_.BytesFrom(kPartner), 0U);
  EXPECT_GT(room_.BytesFrom(kThird), 0U);
  EXPECT_FALSE(table_.MoveTo(kPartner, Epoch(4)));
}

}  // namespace
}  // namespace ringway::agreement
