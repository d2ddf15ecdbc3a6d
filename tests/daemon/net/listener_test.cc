#include "daemon/net/listener.h"

#include <memory>
#include <span>
#include <vector>

#include "tests/proto/stream/memory_stream.h"
#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

class ListenerTest : public NetTest {
 protected:
  void Start(const ListenerOptions& options) {
    auto [fd, address] = ListenOnLoopback();
    address_ = address;
    listener_.emplace(context_, options, [this](LinkOffer offer) { offers_.push_back(std::move(offer)); });
    ASSERT_TRUE(listener_->Start(std::move(fd)).ok());
  }
  void TearDown() override {
    listener_.reset();
    Settle();
  }
  static control::LinkHello Hello() {
    control::LinkHello hello;
    hello.set_version_min(kProtocolVersionMin);
    hello.set_version_max(kProtocolVersionMax);
    hello.set_group("job");
    hello.set_from(1);
    hello.set_to(2);
    hello.set_control(true);
    return hello;
  }
  std::string address_;
  std::optional<Listener> listener_;
  std::vector<LinkOffer> offers_;
};

TEST_F(ListenerTest, HelloIsOfferedWithTheBytesBeyondIt) {
  Start({});
  const UniqueFd client = ConnectTo(address_);
  WriteAll(client.get(), FrameOf(Hello()) + "beyond");
  ASSERT_TRUE(RunUntil([&] { return offers_.size() == 1; }));
  EXPECT_EQ(offers_[0].hello.group(), "job");
  EXPECT_EQ(UnreadOf(*offers_[0].stream), "beyond");
  EXPECT_EQ(CongestionOf(*offers_[0].stream), "cubic");
  EXPECT_EQ(offers_[0].version, kProtocolVersionMax);
  EXPECT_TRUE(RunUntil([&] { return listener_->half_open() == 0; }));
  EXPECT_FALSE(IsClosed(client.get()));
}

TEST_F(ListenerTest, SilentConnectionIsDropped) {
  Start({.hello_timeout = std::chrono::milliseconds(30), .half_open_max = 256, .tuning = {}});
  const UniqueFd client = ConnectTo(address_);
  EXPECT_TRUE(RunUntil([&] { return IsClosed(client.get()); }));
  EXPECT_EQ(listener_->dropped(), 1U);
  EXPECT_TRUE(offers_.empty());
}

TEST_F(ListenerTest, GarbageIsDropped) {
  Start({});
  const UniqueFd client = ConnectTo(address_);
  WriteAll(client.get(), std::string("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(RunUntil([&] { return IsClosed(client.get()); }));
  EXPECT_TRUE(offers_.empty());
}

// Bytes of a connection that has not said who it is are not kept.
TEST_F(ListenerTest, HelloBeyondItsLimitIsDroppedWholeOrNot) {
  Start({});
  control::LinkHello hello = Hello();
  hello.set_group(std::string(5000, 'g'));
  const UniqueFd whole = ConnectTo(address_);
  WriteAll(whole.get(), FrameOf(hello));
  EXPECT_TRUE(RunUntil([&] { return IsClosed(whole.get()); }));
  const UniqueFd cut = ConnectTo(address_);
  WriteAll(cut.get(), FrameOf(hello).substr(0, 4900));
  EXPECT_TRUE(RunUntil([&] { return IsClosed(cut.get()); }));
  EXPECT_TRUE(offers_.empty());
}

TEST_F(ListenerTest, OtherVersionIsReportedAndDropped) {
  Start({});
  control::LinkHello hello = Hello();
  hello.set_version_min(kProtocolVersionMax + 1);
  hello.set_version_max(kProtocolVersionMax + 5);
  const UniqueFd client = ConnectTo(address_);
  WriteAll(client.get(), FrameOf(hello));
  const auto reply = NextFrame<control::LinkReply>(client.get());
  EXPECT_EQ(reply.code(), static_cast<std::uint32_t>(Code::kVersionMismatch));
  EXPECT_FALSE(reply.text().empty());
  EXPECT_TRUE(RunUntil([&] { return IsClosed(client.get()); }));
}

TEST_F(ListenerTest, Version1IsRefusedInItsOwnWords) {
  Start({});
  std::string hello;
  AppendVersion1Frame(Hello(), hello);
  const UniqueFd client = ConnectTo(address_);
  WriteAll(client.get(), hello);
  std::string answer;
  EXPECT_TRUE(RunUntil([&] {
    answer += ReadAvailable(client.get());
    return IsClosed(client.get());
  }));
  control::LinkReply reply;
  ASSERT_GT(answer.size(), 4U);
  ASSERT_TRUE(reply.ParseFromString(answer.substr(4)));
  EXPECT_EQ(reply.code(), static_cast<std::uint32_t>(Code::kVersionMismatch));
  EXPECT_TRUE(offers_.empty());
}

TEST_F(ListenerTest, HelloWithAFlippedByteIsDropped) {
  Start({});
  std::string hello = FrameOf(Hello());
  hello.back() = static_cast<char>(hello.back() ^ 4);
  const UniqueFd client = ConnectTo(address_);
  WriteAll(client.get(), hello);
  EXPECT_TRUE(RunUntil([&] { return IsClosed(client.get()); }));
  EXPECT_TRUE(offers_.empty());
}

TEST_F(ListenerTest, LaneCountOutOfRangeIsDropped) {
  Start({});
  control::LinkHello hello = Hello();
  hello.set_control(false);
  hello.set_lanes(100'000);
  const UniqueFd client = ConnectTo(address_);
  WriteAll(client.get(), FrameOf(hello));
  EXPECT_TRUE(RunUntil([&] { return IsClosed(client.get()); }));
}

TEST_F(ListenerTest, OneOverTheCapClosesTheOldest) {
  Start({.hello_timeout = std::chrono::seconds(5), .half_open_max = 2, .tuning = {}});
  const UniqueFd first = ConnectTo(address_);
  const UniqueFd second = ConnectTo(address_);
  ASSERT_TRUE(RunUntil([&] { return listener_->half_open() == 2; }));
  const UniqueFd third = ConnectTo(address_);
  EXPECT_TRUE(RunUntil([&] { return IsClosed(first.get()); }));
  EXPECT_FALSE(IsClosed(second.get()));
  WriteAll(third.get(), FrameOf(Hello()));
  EXPECT_TRUE(RunUntil([&] { return offers_.size() == 1; }));
  EXPECT_TRUE(RunUntil([&] { return listener_->half_open() == 1; }));
}

TEST_F(ListenerTest, CrowdOfOneHostKeepsNoOtherOut) {
  Start({.half_open_max = 3, .tuning = {}});
  const auto connect_from = [this](const std::string& host) {
    MemoryPair pair({.peer = {.source = host}});
    listener_->Take(std::move(pair.a));
    return std::move(pair.b);
  };
  const auto legitimate = connect_from("192.0.2.1");
  std::vector<std::unique_ptr<Stream>> crowd;
  for (int i = 0; i < 5; ++i) crowd.push_back(connect_from("192.0.2.2"));
  EXPECT_EQ(listener_->half_open(), 3U);
  EXPECT_EQ(listener_->dropped(), 3U);
  const std::string hello = FrameOf(Hello());
  EXPECT_EQ(legitimate->Write(std::as_bytes(std::span(hello))).bytes, hello.size());
  EXPECT_TRUE(RunUntil([&] { return offers_.size() == 1; }));
}

}  // namespace
}  // namespace ringway::net
