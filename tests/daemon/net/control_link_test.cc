#include "daemon/net/control_link.h"

#include <string>
#include <vector>

#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

class RecordingSink : public ControlSink {
 public:
  Status OnControlMessage(PeerId, const control::PeerMessage& message) override {
    messages.push_back(message);
    return verdict;
  }
  void OnControlClosed(PeerId, const std::string& why) override { closed.push_back(why); }
  std::vector<control::PeerMessage> messages;
  std::vector<std::string> closed;
  Status verdict;
};

class ControlLinkTest : public NetTest {
 protected:
  void SetUp() override {
    auto [ours, theirs] = StreamPair();
    other_ = std::move(theirs);
    link_ = std::make_shared<StreamControl>(context_, PeerId(3));
    link_->Start(std::move(ours), &sink_);
  }
  void TearDown() override {
    link_->Close();
    Settle();
  }
  static control::PeerMessage AbortOf(std::uint64_t epoch) {
    control::PeerMessage message;
    message.mutable_abort()->set_epoch(epoch);
    return message;
  }
  RecordingSink sink_;
  std::shared_ptr<StreamControl> link_;
  UniqueFd other_;
};

TEST_F(ControlLinkTest, MessagesSplitAnywhereArriveInOrder) {
  const std::string bytes = FrameOf(AbortOf(1)) + FrameOf(AbortOf(2)) + FrameOf(AbortOf(3));
  for (const char byte : bytes) {
    WriteAll(other_.get(), std::string(1, byte));
    Settle();
  }
  ASSERT_TRUE(RunUntil([&] { return sink_.messages.size() == 3; }));
  EXPECT_EQ(sink_.messages[2].abort().epoch(), 3U);
}

TEST_F(ControlLinkTest, OversizedFrameClosesItBeforeAnythingIsAllocated) {
  WriteAll(other_.get(), std::string("\xff\xff\xff\x52", 4));
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_NE(sink_.closed[0].find("exceeds the maximum"), std::string::npos) << sink_.closed[0];
  EXPECT_TRUE(IsClosed(other_.get()));
}

TEST_F(ControlLinkTest, MessageThatFitsNoFrameClosesItAndEndsNothing) {
  control::PeerMessage message;
  control::PeerMessage::GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(
      999, std::string(kFrameBytesMax, 'x'));
  link_->Send(message);
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_NE(sink_.closed[0].find("fits no frame"), std::string::npos) << sink_.closed[0];
}

TEST_F(ControlLinkTest, UnknownFieldsAreNotKept) {
  control::PeerMessage message = AbortOf(7);
  control::PeerMessage::GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(999,
                                                                                            std::string(100'000, 'x'));
  WriteAll(other_.get(), FrameOf(message));
  ASSERT_TRUE(RunUntil([&] { return sink_.messages.size() == 1; }));
  EXPECT_EQ(sink_.messages[0].SerializeAsString(), AbortOf(7).SerializeAsString());
}

TEST_F(ControlLinkTest, MessageThatItsSinkRefusesClosesIt) {
  sink_.verdict = Status(Code::kProtocol, "it does not follow");
  WriteAll(other_.get(), FrameOf(AbortOf(1)) + FrameOf(AbortOf(2)));
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_EQ(sink_.closed[0], "it does not follow");
  EXPECT_EQ(sink_.messages.size(), 1U);
  EXPECT_TRUE(IsClosed(other_.get()));
}

TEST_F(ControlLinkTest, GarbageClosesIt) {
  WriteAll(other_.get(), std::string("\x03\x00\x00\x00\xff\xff\xff", 7));
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
}

TEST_F(ControlLinkTest, MessageOfNoKnownKindClosesIt) {
  WriteAll(other_.get(), FrameOf(control::PeerMessage()));
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_TRUE(sink_.messages.empty());
}

TEST_F(ControlLinkTest, EndIsReportedOnce) {
  other_.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  Settle();
  EXPECT_EQ(sink_.closed.size(), 1U);
}

TEST_F(ControlLinkTest, BatchLeavesWithOneFlush) {
  link_->Send(AbortOf(1));
  link_->Send(AbortOf(2));
  EXPECT_EQ(ReadAvailable(other_.get()), "");
  link_->Flush();
  EXPECT_EQ(ReadAvailable(other_.get()), FrameOf(AbortOf(1)) + FrameOf(AbortOf(2)));
}

TEST_F(ControlLinkTest, OtherSideThatNeverReadsIsClosedAtTheBound) {
  control::PeerMessage message;
  for (int i = 0; i < 1000; ++i) message.mutable_heartbeat()->add_complete_upto()->set_seq(1ULL << 60);
  const std::string frame = FrameOf(message);
  std::size_t queued = 0;
  while (queued < 2 * ControlLink::kQueueBytesMax) {
    link_->Send(message);
    link_->Flush();
    queued += frame.size();
  }
  ASSERT_TRUE(RunUntil([&] { return sink_.closed.size() == 1; }));
  EXPECT_NE(sink_.closed[0].find("does not read"), std::string::npos) << sink_.closed[0];
}

TEST_F(ControlLinkTest, SlowReaderGetsEverything) {
  control::PeerMessage message;
  for (int i = 0; i < 1000; ++i) message.mutable_heartbeat()->add_complete_upto()->set_seq(1ULL << 60);
  const std::string frame = FrameOf(message);
  const int count = static_cast<int>((ControlLink::kQueueBytesMax - 1) / frame.size()) - 1;
  for (int i = 0; i < count; ++i) link_->Send(message);
  link_->Flush();
  std::size_t got = 0;
  ASSERT_TRUE(RunUntil([&] {
    got += ReadAvailable(other_.get()).size();
    return got == frame.size() * static_cast<std::size_t>(count);
  }));
  EXPECT_TRUE(sink_.closed.empty());
}

}  // namespace
}  // namespace ringway::net
