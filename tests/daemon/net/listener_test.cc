#include "daemon/net/listener.h"

#include <array>
#include <asio/io_context.hpp>
#include <memory>
#include <span>
#include <vector>

#include "tests/proto/stream/memory_stream.h"
#include "tests/proto/stream/net_fixture.h"
#include "tests/proto/stream/simulated_clock.h"

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

// ---- connections that are kept

class KeptTest : public ListenerTest {
 protected:
  // Returns the other end.
  std::unique_ptr<Stream> Keep(const std::string& daemon, std::uint32_t lane) {
    MemoryPair pair;
    listener_->Keep({.daemon = daemon, .lane = LaneId(lane), .stream = std::move(pair.a)});
    return std::move(pair.b);
  }
  bool IsOpen(Stream& other) {
    Settle();
    std::array<std::byte, 1> byte{};
    return other.Read(byte).kind == StreamIo::Kind::kWouldBlock;
  }
  static void Write(Stream& stream, const std::string& text) {
    EXPECT_EQ(stream.Write(std::as_bytes(std::span(text))).bytes, text.size());
  }
};

TEST_F(KeptTest, NewestOfTheSameDaemonAndLaneIsTaken) {
  Start({});
  const auto old = Keep("a", 4);
  const auto newest = Keep("a", 4);
  const auto other_daemon = Keep("b", 4);
  const auto other_lane = Keep("a", 5);
  Settle();
  auto taken = listener_->TakeKept("a", LaneId(4));
  ASSERT_NE(taken, nullptr);
  Write(*newest, "x");
  EXPECT_EQ(UnreadOf(*taken), "x");
  EXPECT_NE(listener_->TakeKept("a", LaneId(4)), nullptr);
  EXPECT_EQ(listener_->TakeKept("a", LaneId(4)), nullptr);
  EXPECT_EQ(listener_->kept(), 2U);
}

TEST_F(KeptTest, HelloOfTheOtherEndIsOfferedAsThatOfAFreshConnection) {
  Start({.hello_timeout = std::chrono::milliseconds(1), .tuning = {}});
  const auto other = Keep("a", 4);
  Write(*other, FrameOf(Hello()) + "beyond");
  ASSERT_TRUE(RunUntil([&] { return offers_.size() == 1; }));
  EXPECT_EQ(offers_[0].hello.group(), "job");
  EXPECT_EQ(UnreadOf(*offers_[0].stream), "beyond");
  EXPECT_TRUE(RunUntil([&] { return listener_->kept() == 0; }));
  EXPECT_EQ(listener_->TakeKept("a", LaneId(4)), nullptr);
}

// What it had seen of its path is of before the rest, after which bbr would stop to measure it anew.
TEST_F(KeptTest, CongestionControlOfOneThatIsUsedAgainIsReset) {
  Start({});
  MemoryPair taken;
  MemoryPair offered;
  listener_->Keep({.daemon = "a", .lane = LaneId(1), .stream = std::move(taken.a)});
  listener_->Keep({.daemon = "a", .lane = LaneId(2), .stream = std::move(offered.a)});
  Settle();
  EXPECT_EQ(taken.a_to_b->renewals(), 0);
  EXPECT_NE(listener_->TakeKept("a", LaneId(1)), nullptr);
  EXPECT_EQ(taken.a_to_b->renewals(), 1);
  Write(*offered.b, FrameOf(Hello()));
  ASSERT_TRUE(RunUntil([&] { return offers_.size() == 1; }));
  EXPECT_EQ(offered.a_to_b->renewals(), 1);
}

// Perhaps this end can open none, and has to learn so.
TEST_F(KeptTest, OneThatTheOtherEndHasOpenedIsGivenWhileThisEndCanOpenOnes) {
  Start({});
  MemoryPair pair;
  pair.a->SetAccepted();
  listener_->Keep({.daemon = "a", .lane = LaneId(1), .stream = std::move(pair.a)});
  EXPECT_EQ(listener_->TakeKept("a", LaneId(1)), nullptr);
  listener_->OnConnected("b", true);
  listener_->OnConnected("a", true);
  listener_->OnConnected("a", false);
  EXPECT_EQ(listener_->TakeKept("a", LaneId(1)), nullptr);
  listener_->OnConnected("a", true);
  EXPECT_NE(listener_->TakeKept("a", LaneId(1)), nullptr);
}

TEST_F(KeptTest, ClosedAndBabblingOnesAreNotGiven) {
  Start({});
  (void)Keep("a", 1);
  const auto babbler = Keep("a", 2);
  Write(*babbler, "GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return listener_->kept() == 0; }));
  EXPECT_EQ(listener_->TakeKept("a", LaneId(1)), nullptr);
  EXPECT_EQ(listener_->TakeKept("a", LaneId(2)), nullptr);
  EXPECT_TRUE(offers_.empty());
}

TEST_F(KeptTest, OneOverTheCapClosesTheOldestOfTheDaemonWithMost) {
  Start({.kept_max = 3, .tuning = {}});
  const auto others = Keep("b", 1);
  const auto first = Keep("a", 1);
  const auto second = Keep("a", 2);
  const auto third = Keep("a", 3);
  EXPECT_EQ(listener_->kept(), 3U);
  EXPECT_TRUE(IsOpen(*others));
  EXPECT_FALSE(IsOpen(*first));
  EXPECT_TRUE(IsOpen(*second));
}

TEST_F(KeptTest, NoneIsKeptWhereThereIsNoRoomAtAll) {
  Start({.kept_max = 0, .tuning = {}});
  const auto other = Keep("a", 1);
  EXPECT_FALSE(IsOpen(*other));
}

TEST_F(KeptTest, AllAreDroppedTogether) {
  Start({});
  const auto other = Keep("a", 1);
  EXPECT_TRUE(IsOpen(*other));
  listener_->DropKept();
  EXPECT_FALSE(IsOpen(*other));
}

TEST_F(KeptTest, OneThatWasInUseWhenAllWereDroppedIsNotKept) {
  Start({});
  MemoryPair in_use;
  listener_->DropKept();
  listener_->Keep({.daemon = "a", .lane = LaneId(1), .stream = std::move(in_use.a)});
  EXPECT_FALSE(IsOpen(*in_use.b));
  const auto later = Keep("a", 1);
  EXPECT_TRUE(IsOpen(*later));
}

TEST(KeptTimeTest, OneIsKeptForAnHour) {
  asio::io_context context;
  SimulatedClock& clock = SimulatedClock::Make(context);
  Listener listener(context, {}, [](LinkOffer) {});
  MemoryPair pair;
  listener.Keep({.daemon = "a", .lane = LaneId(1), .stream = std::move(pair.a)});
  const auto pass = [&](Duration time) {
    const TimePoint limit = clock.Now() + time;
    do {
      context.restart();
      while (context.poll() > 0) context.restart();
    } while (clock.Step(limit));
  };
  pass(Listener::kKeep - std::chrono::seconds(1));
  EXPECT_EQ(listener.kept(), 1U);
  pass(std::chrono::seconds(2));
  EXPECT_EQ(listener.kept(), 0U);
}

}  // namespace
}  // namespace ringway::net
