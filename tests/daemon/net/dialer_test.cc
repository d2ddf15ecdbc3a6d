#include "daemon/net/dialer.h"

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "daemon/net/lane.h"
#include "proto/control.pb.h"
#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

class DialerTest : public NetTest {
 protected:
  void SetUp() override {
    auto [fd, address] = ListenOnLoopback();
    listening_ = std::move(fd);
    address_ = address;
  }
  void Dial(const DialOptions& options, bool control) {
    Dialer dialer(context_, options);
    DialRequest request = RequestFor(address_);
    request.control = control;
    dialer.Dial(std::move(request), [this](Result<DialedLinks> outcome) { Take(std::move(outcome)); });
  }
  // All answers of one dial are one outcome, when the last has come.
  void Take(Result<DialedLinks> answer) {
    if (answer.ok()) {
      for (DialedLinks::Link& link : so_far_) answer.value().links.push_back(std::move(link));
      so_far_.clear();
      if (!answer.value().last) {
        so_far_ = std::move(answer.value().links);
        return;
      }
    }
    outcomes_.push_back(std::move(answer));
  }
  static DialRequest RequestFor(const std::string& address) {
    DialRequest request;
    request.group = "job";
    request.from = PeerId(1);
    request.to = PeerId(2);
    request.address = address;
    return request;
  }
  static std::string ReplyOf(Code code, const std::string& text) {
    control::LinkReply reply;
    reply.set_version(kProtocolVersionMax);
    reply.set_code(static_cast<std::uint32_t>(code));
    reply.set_text(text);
    return FrameOf(reply);
  }
  UniqueFd listening_;
  std::string address_;
  std::vector<DialedLinks::Link> so_far_;
  std::vector<Result<DialedLinks>> outcomes_;
};

TEST_F(DialerTest, ControlLinkIsOneConnection) {
  Dial({}, true);
  const UniqueFd accepted = AcceptOn(listening_.get());
  const auto hello = NextFrame<control::LinkHello>(accepted.get());
  EXPECT_TRUE(hello.control());
  EXPECT_EQ(hello.to(), 2U);
  WriteAll(accepted.get(), ReplyOf(Code::kOk, "") + "early");
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  ASSERT_TRUE(outcomes_[0].ok());
  ASSERT_EQ(outcomes_[0].value().links.size(), 1U);
  EXPECT_EQ(UnreadOf(*outcomes_[0].value().links[0].stream), "early");
  EXPECT_EQ(CongestionOf(*outcomes_[0].value().links[0].stream), "cubic");
}

TEST_F(DialerTest, AllLanesOfALoopbackPairComeAtOnce) {
  Dial({}, false);
  std::map<std::uint32_t, UniqueFd> accepted;
  for (std::uint32_t i = 0; i < kLanesLoopback; ++i) {
    UniqueFd fd = AcceptOn(listening_.get());
    const auto hello = NextFrame<control::LinkHello>(fd.get());
    EXPECT_EQ(hello.lanes(), kLanesLoopback);
    accepted.emplace(hello.lane(), std::move(fd));
  }
  EXPECT_EQ(accepted.size(), kLanesLoopback) << "every lane has its own number";
  for (auto& [lane, fd] : accepted) WriteAll(fd.get(), ReplyOf(Code::kOk, ""));
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  EXPECT_TRUE(outcomes_[0].ok());
}

TEST_F(DialerTest, OnlyTheMissingLanesAreOpenedAgain) {
  Dialer dialer(context_, {});
  DialRequest request = RequestFor(address_);
  request.lanes = 5;
  request.missing = {LaneId(1), LaneId(4)};
  request.generation = 7;
  dialer.Dial(std::move(request), [this](Result<DialedLinks> outcome) { Take(std::move(outcome)); });
  std::vector<UniqueFd> accepted;
  std::vector<std::uint32_t> lanes;
  for (int i = 0; i < 2; ++i) {
    accepted.push_back(AcceptOn(listening_.get()));
    const auto hello = NextFrame<control::LinkHello>(accepted.back().get());
    EXPECT_EQ(hello.lanes(), 5U);
    EXPECT_EQ(hello.generation(), 7U);
    lanes.push_back(hello.lane());
    WriteAll(accepted.back().get(), ReplyOf(Code::kOk, ""));
  }
  EXPECT_EQ(lanes, (std::vector<std::uint32_t>{1, 4}));
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  ASSERT_TRUE(outcomes_[0].ok()) << outcomes_[0].status().text();
  EXPECT_EQ(outcomes_[0].value().lanes, 5U);
  ASSERT_EQ(outcomes_[0].value().links.size(), 2U);
  std::set<LaneId> given;
  for (const DialedLinks::Link& link : outcomes_[0].value().links) given.insert(link.lane);
  EXPECT_EQ(given, (std::set<LaneId>{LaneId(1), LaneId(4)}));
}

class ThreeLanesTest : public DialerTest {
 protected:
  void SetUp() override {
    DialerTest::SetUp();
    DialOptions options;
    options.lanes = 3;
    Dial(options, false);
    for (int i = 0; i < 3; ++i) accepted_.push_back(AcceptOn(listening_.get()));
    for (const auto& fd : accepted_) lanes_.push_back(NextFrame<control::LinkHello>(fd.get()).lane());
  }
  std::vector<UniqueFd> accepted_;
  std::vector<std::uint32_t> lanes_;
};

TEST_F(ThreeLanesTest, ThatAreAnsweredStandWhereOthersAreRefusedOrClosed) {
  WriteAll(accepted_[1].get(), ReplyOf(Code::kOk, ""));
  ASSERT_TRUE(RunUntil([&] { return so_far_.size() == 1; })) << "it is given at once";
  WriteAll(accepted_[0].get(), ReplyOf(Code::kJoinRefused, "who are you"));
  Settle();
  EXPECT_TRUE(outcomes_.empty()) << "one is open";
  accepted_[2].Reset();
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  ASSERT_TRUE(outcomes_[0].ok()) << outcomes_[0].status().text();
  const DialedLinks& links = outcomes_[0].value();
  ASSERT_EQ(links.links.size(), 1U);
  EXPECT_EQ(links.links[0].lane, LaneId(lanes_[1]));
  EXPECT_EQ(links.lanes, 3U);
  EXPECT_NE(links.failure.text().find("who are you"), std::string::npos) << "the first one";
  EXPECT_FALSE(IsClosed(accepted_[1].get()));
}

TEST_F(ThreeLanesTest, ThatAllFailAreAFailedDialWithTheFirstReason) {
  WriteAll(accepted_[2].get(), ReplyOf(Code::kJoinRefused, "who are you"));
  Settle();
  accepted_[0].Reset();
  accepted_[1].Reset();
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  ASSERT_FALSE(outcomes_[0].ok());
  EXPECT_EQ(outcomes_[0].status().code(), Code::kJoinRefused);
  EXPECT_NE(outcomes_[0].status().text().find("who are you"), std::string::npos);
  EXPECT_NE(outcomes_[0].status().text().find(address_), std::string::npos);
  Settle();
  EXPECT_EQ(outcomes_.size(), 1U);
}

TEST_F(DialerTest, SilenceAfterConnectingFails) {
  DialOptions options;
  options.reply_timeout = std::chrono::milliseconds(30);
  Dial(options, true);
  const UniqueFd accepted = AcceptOn(listening_.get());
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  EXPECT_EQ(outcomes_[0].status().code(), Code::kPeerUnreachable);
}

TEST_F(DialerTest, NobodyListeningIsSaidWithTheSystemsReason) {
  listening_.Reset();
  Dial({}, false);
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  EXPECT_NE(outcomes_[0].status().text().find("Connection refused"), std::string::npos) << outcomes_[0].status().text();
  EXPECT_NE(outcomes_[0].status().text().find(address_), std::string::npos);
}

TEST_F(DialerTest, RemoteAddressNeedsInsecure) {
  address_ = "192.0.2.1:7000";
  Dial({}, true);
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  EXPECT_NE(outcomes_[0].status().text().find("--insecure"), std::string::npos) << outcomes_[0].status().text();
}

TEST_F(DialerTest, NonsenseAddressFailsOnce) {
  address_ = "nonsense";
  Dial({}, true);
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  EXPECT_FALSE(outcomes_[0].ok());
}

// A daemon stops with dials under way: the event loop's end must free them, wherever they stand.
TEST_F(DialerTest, EndOfTheEventLoopFreesDialsUnderWay) {
  for (const bool greeted : {false, true}) {
    const auto token = std::make_shared<int>(0);
    auto loop = std::make_unique<asio::io_context>();
    Dialer dialer(*loop, {});
    dialer.Dial(RequestFor(address_), [token](const Result<DialedLinks>&) {});
    UniqueFd accepted;
    if (greeted) {
      ASSERT_TRUE(RunUntil([&] {
        loop->restart();
        loop->poll();
        if (!accepted.valid()) accepted.Reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        return accepted.valid() && !ReadAvailable(accepted.get()).empty();
      }));
    }
    EXPECT_GT(token.use_count(), 1);
    loop.reset();
    EXPECT_EQ(token.use_count(), 1) << (greeted ? "after the hello" : "before connecting");
  }
}

// ---- connections that were kept

class KeptLanesTest : public DialerTest {
 protected:
  // Returns the other end.
  UniqueFd Keep(std::uint32_t lane, const std::string& daemon = "d2") {
    auto [stream, other] = StreamPair();
    listener_.Keep({.daemon = daemon, .lane = LaneId(lane), .stream = std::move(stream)});
    return std::move(other);
  }
  void DialTwo() {
    DialOptions options;
    options.lanes = 2;
    options.kept = &listener_;
    Dialer dialer(context_, options);
    DialRequest request = RequestFor(address_);
    request.daemon = "d2";
    dialer.Dial(std::move(request), [this](Result<DialedLinks> outcome) { Take(std::move(outcome)); });
  }
  // Answers on a connection that was accepted; returns which lane asked for it.
  std::uint32_t AnswerFresh() {
    accepted_.push_back(AcceptOn(listening_.get()));
    const auto hello = NextFrame<control::LinkHello>(accepted_.back().get());
    WriteAll(accepted_.back().get(), ReplyOf(Code::kOk, ""));
    return hello.lane();
  }
  bool BothStand() {
    return RunUntil([&] { return outcomes_.size() == 1; }) && outcomes_[0].ok() &&
           so_far_.size() + outcomes_[0].value().links.size() == 2;
  }
  Listener listener_{context_, {}, [](LinkOffer) {}};
  std::vector<UniqueFd> accepted_;
};

TEST_F(KeptLanesTest, AreGreetedAsFreshOnes) {
  const std::array others = {Keep(0), Keep(1)};
  DialTwo();
  for (std::uint32_t lane = 0; lane < 2; ++lane) {
    const auto hello = NextFrame<control::LinkHello>(others[lane].get());
    EXPECT_EQ(hello.group(), "job");
    EXPECT_EQ(hello.lane(), lane);
    WriteAll(others[lane].get(), ReplyOf(Code::kOk, ""));
  }
  EXPECT_TRUE(BothStand());
  EXPECT_EQ(listener_.kept(), 0U);
}

TEST_F(KeptLanesTest, AreForTheirDaemonOnly) {
  const UniqueFd other = Keep(0, "d3");
  DialTwo();
  EXPECT_EQ(AnswerFresh() + AnswerFresh(), 1U);
  EXPECT_TRUE(BothStand());
  EXPECT_EQ(ReadAvailable(other.get()), "");
}

TEST_F(KeptLanesTest, FreshOnesReplaceThoseThatFail) {
  UniqueFd closed = Keep(0);
  const UniqueFd babbling = Keep(1);
  DialTwo();
  closed.Reset();
  WriteAll(babbling.get(), std::string("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(AnswerFresh() + AnswerFresh(), 1U);
  EXPECT_TRUE(BothStand());
}

TEST_F(KeptLanesTest, FreshOneReplacesOneThatTheOtherEndUsesAtTheSameTime) {
  const UniqueFd other = Keep(0);
  DialTwo();
  control::LinkHello hello;
  hello.set_version_min(kProtocolVersionMin);
  hello.set_version_max(static_cast<std::uint32_t>(Code::kJoinRefused));  // an answer's code has the same number
  hello.set_group("theirs");
  hello.set_from(8);
  hello.set_to(9);
  WriteAll(other.get(), FrameOf(hello));
  EXPECT_EQ(AnswerFresh() + AnswerFresh(), 1U);
  EXPECT_TRUE(BothStand());
  EXPECT_TRUE(RunUntil([&] { return IsClosed(other.get()); }));
}

TEST_F(KeptLanesTest, ThoseThatTheOtherEndHasOpenedAreUsedOnceAFreshOneStands) {
  auto [stream, other] = StreamPair();
  stream->SetAccepted();
  listener_.Keep({.daemon = "d2", .lane = LaneId(0), .stream = std::move(stream)});
  DialTwo();
  EXPECT_EQ(AnswerFresh() + AnswerFresh(), 1U);
  ASSERT_TRUE(BothStand());
  DialTwo();
  EXPECT_EQ(NextFrame<control::LinkHello>(other.get()).lane(), 0U);
}

TEST_F(KeptLanesTest, RefusalIsAnAnswerAfterWhichTheyAreKept) {
  const std::array others = {Keep(0), Keep(1)};
  DialTwo();
  for (const UniqueFd& other : others) WriteAll(other.get(), ReplyOf(Code::kJoinRefused, "who are you"));
  ASSERT_TRUE(RunUntil([&] { return outcomes_.size() == 1; }));
  EXPECT_EQ(outcomes_[0].status().code(), Code::kJoinRefused);
  EXPECT_EQ(listener_.kept(), 2U);
  for (const UniqueFd& other : others) EXPECT_FALSE(IsClosed(other.get()));
}

}  // namespace
}  // namespace ringway::net
