// The relay itself, between a dialler and an acceptor of this process.
#include "tests/e2e/relay.h"

#include <gtest/gtest.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <string>
#include <utility>

#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "tests/e2e/processes.h"

namespace ringway::e2e {
namespace {

using asio::ip::tcp;

constexpr std::uint64_t kDialler = 7;
constexpr std::uint64_t kTarget = 9;

class RelayTest : public testing::Test {
 protected:
  struct Ends {
    tcp::socket dialler, target;
    std::string hello;
  };

  RelayTest() : acceptor_(context_, Loopback(0)) {
    relay_.Aim("127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()));
  }

  static tcp::endpoint Loopback(int port) {
    return {asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)};
  }

  tcp::socket Dial() {
    tcp::socket socket(context_);
    socket.connect(Loopback(std::stoi(relay_.address().substr(relay_.address().rfind(':') + 1))));
    return socket;
  }

  Ends Open(bool control) {
    control::LinkHello hello;
    hello.set_from(kDialler);
    hello.set_to(kTarget);
    hello.set_control(control);
    std::string frame;
    AppendFrame(hello, frame);
    tcp::socket dialler = Dial();
    asio::write(dialler, asio::buffer(frame));
    return {std::move(dialler), acceptor_.accept(), frame};
  }

  // Does what Open does, and waits until the hello has been read at the target.
  Ends Opened(bool control = false) {
    Ends ends = Open(control);
    EXPECT_EQ(Read(ends.target, ends.hello.size()), ends.hello);
    return ends;
  }

  static std::string Read(tcp::socket& socket, std::size_t count) {
    std::string bytes(count, '\0');
    asio::error_code error;
    bytes.resize(asio::read(socket, asio::buffer(bytes), error));
    return bytes;
  }

  static asio::error_code ErrorOf(tcp::socket& socket) {
    char byte = 0;
    asio::error_code error;
    asio::read(socket, asio::buffer(&byte, 1), error);
    return error;
  }

  static void ExpectPasses(tcp::socket& from, tcp::socket& to, const std::string& text) {
    asio::write(from, asio::buffer(text));
    EXPECT_EQ(Read(to, text.size()), text);
  }

  asio::io_context context_;
  tcp::acceptor acceptor_;
  Relay relay_;
};

TEST_F(RelayTest, BytesAndEndsPassBothWays) {
  Ends ends = Opened();
  const std::string large(300'000, 'x');
  ExpectPasses(ends.dialler, ends.target, "to the target");
  ExpectPasses(ends.target, ends.dialler, large);
  ends.dialler.shutdown(tcp::socket::shutdown_send);
  EXPECT_EQ(ErrorOf(ends.target), asio::error::eof);
  ExpectPasses(ends.target, ends.dialler, "after the other's end");
  ends.target.close();
  EXPECT_EQ(ErrorOf(ends.dialler), asio::error::eof);
  EXPECT_TRUE(Eventually([&] { return relay_.Connections() == 0; }));
}

TEST_F(RelayTest, CutResetsBothEndsOfTheFlowAlone) {
  Ends lane = Opened(false);
  Ends control = Opened(true);
  EXPECT_EQ(relay_.Cut({.from = kDialler, .to = 1}), 0u);
  EXPECT_EQ(relay_.Cut({.from = kTarget, .to = kDialler, .links = Links::kLanes}), 1u);
  EXPECT_EQ(ErrorOf(lane.dialler), asio::error::connection_reset);
  EXPECT_EQ(ErrorOf(lane.target), asio::error::connection_reset);
  ExpectPasses(control.dialler, control.target, "still there");
}

TEST_F(RelayTest, CorruptFlipsOneBitAfterTheSkippedBytesOnce) {
  Ends ends = Opened();
  relay_.Corrupt({.from = kTarget, .to = kDialler}, 3);
  ExpectPasses(ends.dialler, ends.target, "the other direction");
  asio::write(ends.target, asio::buffer(std::string("abcdefg")));
  EXPECT_EQ(Read(ends.dialler, 7), std::string("abctefg"));
  EXPECT_EQ(relay_.CorruptedBytes(), 1u);
  ExpectPasses(ends.target, ends.dialler, "abcdefg");
}

TEST_F(RelayTest, NoiseChangesOneOfSoManyBytesUntilRestored) {
  Ends ends = Opened();
  relay_.AddNoise({.from = kDialler}, 3);
  ExpectPasses(ends.target, ends.dialler, "the other way passes");
  asio::write(ends.dialler, asio::buffer(std::string("aaaaaaaa")));
  EXPECT_EQ(Read(ends.target, 8), "aaaeaaea");
  relay_.Restore();
  ExpectPasses(ends.dialler, ends.target, "aaaaaaaa");
}

TEST_F(RelayTest, DirectionsOfAStrangerAreDistinguished) {
  tcp::socket dialler = Dial();
  control::LinkReply not_a_hello;
  not_a_hello.set_version(2);
  std::string frame;
  AppendFrame(not_a_hello, frame);
  asio::write(dialler, asio::buffer(frame));
  tcp::socket target = acceptor_.accept();
  EXPECT_EQ(Read(target, frame.size()), frame);
  relay_.BlackHole({.from = Relay::kDialled});
  asio::write(target, asio::buffer(std::string("held")));
  ExpectPasses(dialler, target, "the other way passes");
  EXPECT_EQ(dialler.available(), 0u);
  relay_.Restore();
  EXPECT_EQ(Read(dialler, 4), "held");
}

TEST_F(RelayTest, BlackHoleSwallowsOneWayUntilRestored) {
  Ends ends = Opened();
  relay_.BlackHole({.from = kDialler});
  asio::write(ends.dialler, asio::buffer(std::string("held")));
  ExpectPasses(ends.target, ends.dialler, "the other way passes");
  EXPECT_EQ(ends.target.available(), 0u);
  relay_.Restore();
  EXPECT_EQ(Read(ends.target, 4), "held");
}

TEST_F(RelayTest, NewConnectionInABlackHoleIsAcceptedAndSilent) {
  relay_.BlackHole({.to = kTarget});
  Ends ends = Open(false);
  ExpectPasses(ends.target, ends.dialler, "the other way passes");
  EXPECT_EQ(ends.target.available(), 0u);
  relay_.Restore();
  EXPECT_EQ(Read(ends.target, ends.hello.size()), ends.hello);
}

TEST_F(RelayTest, DelayedBytesAreHeldInOrderUntilRestored) {
  Ends ends = Opened();
  relay_.Delay({.from = kDialler}, std::chrono::hours(1));
  asio::write(ends.dialler, asio::buffer(std::string("one ")));
  ExpectPasses(ends.target, ends.dialler, "the other way passes");
  asio::write(ends.dialler, asio::buffer(std::string("two")));
  EXPECT_EQ(ends.target.available(), 0u);
  relay_.Restore();
  EXPECT_EQ(Read(ends.target, 7), "one two");
}

TEST_F(RelayTest, NothingListeningBehindItResetsTheDialler) {
  acceptor_.close();
  control::LinkHello hello;
  std::string frame;
  AppendFrame(hello, frame);
  tcp::socket dialler = Dial();
  asio::write(dialler, asio::buffer(frame));
  EXPECT_EQ(ErrorOf(dialler), asio::error::connection_reset);
}

}  // namespace
}  // namespace ringway::e2e
