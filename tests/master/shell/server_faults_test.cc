// The master's server over connections that cut, stall, end, fail and lie at any byte.
#include <gtest/gtest.h>

#include "master/shell/server.h"
#include "tests/master/shell/ask_over.h"
#include "tests/proto/stream/memory_stream.h"

namespace ringway {
namespace {

using net::MemoryFaults;
using net::MemoryPair;
using Kind = net::StreamIo::Kind;

class ServerFaultsTest : public testing::Test {
 protected:
  // Runs what is ready.
  void Settle() {
    for (int i = 0; i < 16; ++i) {
      io_.restart();
      io_.poll();
    }
  }
  static std::string HelloAndHeartbeat() {
    control::ToMaster hello;
    hello.mutable_hello()->set_version_min(kProtocolVersionMin);
    hello.mutable_hello()->set_version_max(kProtocolVersionMax);
    hello.mutable_hello()->set_name("d");
    hello.mutable_hello()->set_address("127.0.0.1:1");
    control::ToMaster heartbeat;
    heartbeat.mutable_heartbeat();
    std::string out;
    AppendFrame(hello, out);
    AppendFrame(heartbeat, out);
    return out;
  }

  asio::io_context io_;
  Server server_{io_, {}};
};

TEST_F(ServerFaultsTest, HelloIsAnsweredWhateverTheCuts) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const MemoryFaults faults{.seed = seed, .capacity = 1 + seed % 50, .piece_max = 1 + seed % 7, .stall_percent = 40};
    MemoryPair pair({.a_to_b = faults, .b_to_a = faults});
    server_.Take(std::move(pair.b));
    const auto reply = net::AskOver(*pair.a, HelloAndHeartbeat(), io_);
    ASSERT_TRUE(reply && reply->has_hello_reply());
    pair.a = nullptr;
    Settle();
    EXPECT_EQ(server_.connections(), 0U);
  }
}

TEST_F(ServerFaultsTest, BreakAtAnyByteEndsThatConnectionOnly) {
  MemoryPair other;
  server_.Take(std::move(other.b));
  const std::string bytes = HelloAndHeartbeat();
  for (const Kind kind : {Kind::kEnd, Kind::kError}) {
    for (const bool reads : {true, false}) {
      for (std::size_t at = 0; at <= (reads ? bytes.size() : 20); ++at) {
        SCOPED_TRACE(at);
        MemoryPair pair(reads ? net::MemoryOptions{.a_to_b = {.read_breaks_at = at, .breaks = kind}}
                              : net::MemoryOptions{.b_to_a = {.write_breaks_at = at, .breaks = kind}});
        server_.Take(std::move(pair.b));
        (void)net::AskOver(*pair.a, bytes, io_);
        Settle();
        EXPECT_EQ(server_.connections(), 1U);
      }
    }
  }
}

TEST_F(ServerFaultsTest, FlippedByteEndsTheConnection) {
  const std::string bytes = HelloAndHeartbeat();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    SCOPED_TRACE(at);
    MemoryPair pair({.a_to_b = {.flip_at = at}});
    server_.Take(std::move(pair.b));
    (void)net::AskOver(*pair.a, bytes, io_);
    Settle();
    EXPECT_EQ(server_.connections(), 0U);
  }
}

}  // namespace
}  // namespace ringway
