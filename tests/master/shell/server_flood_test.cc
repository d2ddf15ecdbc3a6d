// Crowds at the master's port: what is no daemon is bounded, cheap and quiet, and keeps no daemon out.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <functional>
#include <iterator>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "master/shell/server.h"
#include "proto/frame_codec.h"
#include "proto/stream/address.h"

namespace ringway {
namespace {

using asio::ip::tcp;

class ServerFloodTest : public testing::Test {
 protected:
  void Start(std::chrono::milliseconds hello_timeout = std::chrono::minutes(10)) {
    ServerOptions options;
    options.hello_timeout = hello_timeout;
    options.coordinator.detect_ms = 600'000;  // daemons here have no heartbeat
    auto listening = net::ListenTcp(net::ResolveBlocking({.host = "127.0.0.1", .port = 0}, true).value());
    ASSERT_TRUE(listening.ok());
    address_ = {asio::ip::address_v4::loopback(), net::LocalAddress(listening.value().get()).value().port()};
    server_ = std::make_unique<Server>(io_, std::move(options));
    ASSERT_TRUE(server_->Start(std::move(listening).value()).ok());
  }

  bool RunUntil(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(std::chrono::milliseconds(100));
    }
    return true;
  }

  // One more connection, on which these bytes lie; the server has accepted it.
  tcp::socket& Connect(const std::string& bytes, std::optional<int> receive_bytes = {}) {
    tcp::socket& client = clients_.emplace_back(io_);
    client.open(tcp::v4());
    if (receive_bytes) client.set_option(asio::socket_base::receive_buffer_size(*receive_bytes));
    client.connect(address_);
    asio::write(client, asio::buffer(bytes));
    return client;
  }
  void Crowd(int count, const std::string& bytes) {
    for (int i = 0; i < count; ++i) {
      Connect(bytes);
      io_.poll();
    }
  }

  static std::string Framed(const control::ToMaster& message) {
    std::string out;
    AppendFrame(message, out);
    return out;
  }
  static std::string Hello(const std::string& name) {
    control::ToMaster message;
    message.mutable_hello()->set_version_min(kProtocolVersionMin);
    message.mutable_hello()->set_version_max(kProtocolVersionMax);
    message.mutable_hello()->set_name(name);
    message.mutable_hello()->set_address("127.0.0.1:1");
    return Framed(message);
  }
  static std::string StatusRequest() {
    control::ToMaster message;
    message.mutable_status();
    return Framed(message);
  }

  // Forms so many groups that a status takes half a megabyte, and several slices to make.
  void FormManyGroups() {
    constexpr std::size_t kGroups = 900;
    std::string words = Hello("host");
    for (std::size_t i = 0; i < kGroups; ++i) {
      control::ToMaster join;
      join.mutable_join()->set_group(std::to_string(i) + std::string(120, 'g'));
      join.mutable_join()->set_wait_world(64);
      words += Framed(join);
    }
    Connect(words);
    ASSERT_TRUE(RunUntil([&] { return server_->coordinator().groups().size() == kGroups; }));
  }

  std::size_t DaemonsConnected() const {
    std::size_t count = 0;
    for (const auto& [id, daemon] : server_->coordinator().daemons()) count += daemon.connection ? 1 : 0;
    return count;
  }

  asio::io_context io_;
  std::unique_ptr<Server> server_;
  tcp::endpoint address_;
  std::list<tcp::socket> clients_;
};

TEST_F(ServerFloodTest, SilentCrowdIsBoundedAndKeepsNoDaemonOutNorIn) {
  Start();
  Connect(Hello("first"));
  ASSERT_TRUE(RunUntil([&] { return DaemonsConnected() == 1; }));
  Crowd(2 * static_cast<int>(Server::kStrangersMax), std::string("\x40\x00", 2));
  Connect(Hello("second"));
  EXPECT_TRUE(RunUntil([&] { return DaemonsConnected() == 2; }));
  EXPECT_LE(server_->connections(), Server::kStrangersMax + 2);
}

TEST_F(ServerFloodTest, CrowdOfClientsIsBoundedAndTheNewestIsAnswered) {
  Start();
  Crowd(3 * static_cast<int>(Server::kClientsMax), StatusRequest());
  tcp::socket& last = Connect(StatusRequest());
  EXPECT_TRUE(RunUntil([&] { return last.available() > 0; }));
  EXPECT_LE(server_->connections(), 2 * Server::kClientsMax) << "those that wait, and those that were answered";
}

TEST_F(ServerFloodTest, CrowdThatComesFasterThanItIsAnsweredDoesNotKeepAllFromAnswers) {
  Start();
  FormManyGroups();
  EXPECT_TRUE(RunUntil([&] {  // a whole crowd at each look, while one report takes several
    Crowd(static_cast<int>(Server::kClientsMax) + 1, StatusRequest());
    while (clients_.size() > 500) clients_.erase(std::next(clients_.begin()));  // the first is the daemon
    return server_->desk().status_reports() >= 3;
  }));
  EXPECT_LE(server_->connections(), 2 * Server::kClientsMax + Server::kStrangersMax + 1);
}

TEST_F(ServerFloodTest, ClientThatTakesNoAnswersGetsNoMoreOfThem) {
  Start();
  FormManyGroups();
  constexpr int kRequests = 200;
  std::string storm;
  for (int i = 0; i < kRequests; ++i) storm += StatusRequest();
  Connect(storm, 4096);
  tcp::socket& other = Connect(StatusRequest());
  EXPECT_TRUE(RunUntil([&] { return other.available() > 0; }));
  // Whoever asks after it is answered again and again, while it gets what its kernel takes.
  for (int i = 0; i < 4; ++i) {
    tcp::socket& next = Connect(StatusRequest());
    EXPECT_TRUE(RunUntil([&] { return next.available() > 0; }));
  }
  EXPECT_TRUE(RunUntil([&] {
    io_.poll();  // who was answered asks anew
    return server_->desk().idle();
  }));
  EXPECT_LT(server_->desk().status_reports(), 25u) << "one for each that takes them, and some";
  EXPECT_EQ(DaemonsConnected(), 1u);
}

TEST_F(ServerFloodTest, NextRequestIsAnsweredWhenTheLastAnswerIsTaken) {
  Start();
  std::string three;
  for (int i = 0; i < 3; ++i) three += StatusRequest();
  Connect(three);
  EXPECT_TRUE(RunUntil([&] { return server_->desk().status_reports() == 3; }));
}

TEST_F(ServerFloodTest, ClientThatTakesNothingIsClosedAfterItsTime) {
  Start(std::chrono::milliseconds(50));
  Connect(StatusRequest());
  EXPECT_TRUE(RunUntil([&] { return server_->desk().status_reports() == 1; }));
  EXPECT_TRUE(RunUntil([&] { return server_->connections() == 0; }));
}

TEST_F(ServerFloodTest, FrameLargerThanAHelloIsClosedBeforeItIsWhole) {
  Start();
  Connect(std::string("\x00\x00\x10\x00", 4) + std::string(8000, 'x'));  // of 1 MiB
  Connect(std::string("\x00\x20\x00\x00", 4) + std::string(8192, 'x'));  // of 8 KiB, whole
  EXPECT_TRUE(RunUntil([&] { return server_->log_lines_of_strangers() == 2; }));
  EXPECT_TRUE(RunUntil([&] { return server_->connections() == 0; }));
}

TEST_F(ServerFloodTest, CrowdThatTalksNonsenseFillsNoLog) {
  Start();
  control::ToMaster hello;
  hello.mutable_hello()->set_name(std::string(3000, 'x'));
  for (int i = 0; i < 250; ++i) {
    Connect("GET / HTTP/1.1\r\n\r\n");
    Connect(Framed(hello));  // no version in common, and a name longer than any
    ASSERT_TRUE(RunUntil([&] { return server_->connections() <= 10; }));
  }
  EXPECT_LT(server_->log_lines_of_strangers(), 200u) << "750 things happened";
}

}  // namespace
}  // namespace ringway
