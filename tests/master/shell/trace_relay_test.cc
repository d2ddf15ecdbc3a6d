#include "master/shell/trace_relay.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/frame_codec.h"

namespace ringway {
namespace {

constexpr TraceRelay::Connection kClient = 1, kDaemon = 10, kOther = 11;
constexpr TimePoint kStart{std::chrono::seconds(100)};

class TraceRelayTest : public testing::Test {
 protected:
  void SetUp() override { Beat(kDaemon); }
  // The daemon's clock is a second ahead, and it answered at once.
  void Beat(TraceRelay::Connection daemon) {
    control::DaemonHeartbeat heartbeat;
    TraceRelay::Stamp(heartbeat, kStart - std::chrono::milliseconds(1));
    heartbeat.mutable_clock()->set_echo_us(heartbeat.clock().sent_us());
    heartbeat.mutable_clock()->set_sent_us((kStart + std::chrono::seconds(1)).time_since_epoch().count());
    relay_.OnHeartbeat(daemon, heartbeat, kStart);
  }
  static control::TraceRequest Request() {
    control::TraceRequest request;
    request.set_group("g");
    request.set_daemon("d");
    request.set_last(3);
    return request;
  }
  // Asks; what goes to the daemon.
  control::TraceRequest Ask(TraceRelay::Connection client) {
    const auto message = relay_.Ask(client, Request(), kDaemon, kStart);
    EXPECT_EQ(message.to, kDaemon);
    return message.message.trace();
  }
  static control::TracePart Part(std::uint64_t number, const std::string& image) {
    control::TracePart part;
    part.set_number(number);
    part.set_image(image);
    return part;
  }
  static Code CodeOf(const TraceRelay::Message& message) { return CodeFromWire(message.message.trace_reply().code()); }

  TraceRelay relay_;
};

TEST_F(TraceRelayTest, AnAnswerComesBackWithTheDaemonsClock) {
  const control::TraceRequest passed = Ask(kClient);
  EXPECT_EQ(passed.group(), "g");
  EXPECT_EQ(passed.last(), 3U);
  EXPECT_EQ(passed.daemon(), "");
  const auto answer = relay_.OnPart(kDaemon, Part(passed.number(), "image"), kStart);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->to, kClient);
  const control::TraceReply& reply = answer->message.trace_reply();
  EXPECT_EQ(reply.image(), "image");
  EXPECT_TRUE(reply.has_clock());
  EXPECT_NEAR(static_cast<double>(reply.ahead_us()), 1e6, static_cast<double>(reply.error_us()));
  EXPECT_LT(reply.error_us(), 1000U);
}

TEST_F(TraceRelayTest, OnlyTheAskedDaemonAnswersAndOnce) {
  const std::uint64_t number = Ask(kClient).number();
  EXPECT_FALSE(relay_.OnPart(kOther, Part(number, "lie"), kStart));
  EXPECT_FALSE(relay_.OnPart(kDaemon, Part(number + 1, "lie"), kStart));
  EXPECT_TRUE(relay_.OnPart(kDaemon, Part(number, "image"), kStart));
  EXPECT_FALSE(relay_.OnPart(kDaemon, Part(number, "image"), kStart));
}

TEST_F(TraceRelayTest, ADaemonThatIsUnknownOrOlderIsATypedError) {
  const auto unknown = relay_.Ask(kClient, Request(), Status(Code::kInvalidArgument, "no daemon"), kStart);
  EXPECT_EQ(unknown.to, kClient);
  EXPECT_EQ(CodeOf(unknown), Code::kInvalidArgument);
  const auto older = relay_.Ask(kClient, Request(), kOther, kStart);
  EXPECT_EQ(older.to, kClient);
  EXPECT_EQ(CodeOf(older), Code::kNotSupported);
}

TEST_F(TraceRelayTest, ADaemonThatDoesNotAnswerOrEndsIsATypedError) {
  const std::uint64_t number = Ask(kClient).number();
  EXPECT_TRUE(relay_.Tick(kStart + TraceRelay::kWait - Duration(1)).empty());
  const auto late = relay_.Tick(kStart + TraceRelay::kWait);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(CodeOf(late[0]), Code::kTimeout);
  EXPECT_FALSE(relay_.OnPart(kDaemon, Part(number, "late"), kStart));
  (void)Ask(kClient);
  const auto ended = relay_.OnClosed(kDaemon);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].to, kClient);
  EXPECT_EQ(CodeOf(ended[0]), Code::kDaemonUnreachable);
  EXPECT_EQ(relay_.Ask(kClient, Request(), kDaemon, kStart).to, kClient) << "its clock is forgotten";
}

TEST_F(TraceRelayTest, AClientThatHasGoneGetsNothing) {
  const std::uint64_t number = Ask(kClient).number();
  EXPECT_TRUE(relay_.OnClosed(kClient).empty());
  EXPECT_FALSE(relay_.OnPart(kDaemon, Part(number, "image"), kStart));
}

TEST_F(TraceRelayTest, RequestsAreBounded) {
  for (std::size_t i = 0; i < TraceRelay::kPendingMax; ++i) {
    Beat(200 + i);
    EXPECT_EQ(relay_.Ask(100 + i, Request(), 200 + i, kStart).to, 200 + i);
  }
  EXPECT_EQ(CodeOf(relay_.Ask(kClient, Request(), kDaemon, kStart)), Code::kResourceExhausted);
  EXPECT_EQ(relay_.Tick(kStart + TraceRelay::kWait).size(), TraceRelay::kPendingMax);
  (void)Ask(kClient);
}

TEST_F(TraceRelayTest, ADaemonGetsNoRequestBeforeItHasAnsweredTheLast) {
  const std::uint64_t number = Ask(kClient).number();
  const auto refused = relay_.Ask(kClient + 1, Request(), kDaemon, kStart);
  EXPECT_EQ(refused.to, kClient + 1);
  EXPECT_EQ(CodeOf(refused), Code::kResourceExhausted);
  EXPECT_EQ(relay_.Tick(kStart + TraceRelay::kWait).size(), 1U);
  EXPECT_TRUE(relay_.Tick(kStart + TraceRelay::kWait).empty());
  EXPECT_EQ(CodeOf(relay_.Ask(kClient, Request(), kDaemon, kStart)), Code::kResourceExhausted) << "its image waits";
  EXPECT_FALSE(relay_.OnPart(kDaemon, Part(number, "image"), kStart)) << "its client had an answer";
  (void)Ask(kClient);
  EXPECT_TRUE(relay_.OnClosed(kClient).empty());
  EXPECT_EQ(CodeOf(relay_.Ask(kClient + 1, Request(), kDaemon, kStart)), Code::kResourceExhausted);
}

TEST_F(TraceRelayTest, AnImageThatNoFrameHoldsIsRefused) {
  const auto answer = relay_.OnPart(kDaemon, Part(Ask(kClient).number(), std::string(kFrameBytesMax, 'x')), kStart);
  ASSERT_TRUE(answer);
  EXPECT_EQ(CodeOf(*answer), Code::kProtocol);
}

}  // namespace
}  // namespace ringway
