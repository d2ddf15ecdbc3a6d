// A server on loopback in the test's own loop, and a client of it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <asio/connect.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "master/shell/server.h"
#include "proto/frame_codec.h"
#include "proto/stream/address.h"

namespace ringway {

using asio::ip::tcp;

class ServerTest : public testing::Test {
 protected:
  void Start(std::chrono::milliseconds hello_timeout = std::chrono::seconds(30), std::uint32_t detect_ms = 3000,
             std::unique_ptr<Store> journal = nullptr) {
    ServerOptions options;
    options.store = std::move(journal);
    options.hello_timeout = hello_timeout;
    options.coordinator.detect_ms = detect_ms;
    auto listening = net::ListenTcp(net::ResolveBlocking({.host = "127.0.0.1", .port = 0}, true).value());
    ASSERT_TRUE(listening.ok());
    address_ = {asio::ip::address_v4::loopback(), net::LocalAddress(listening.value().get()).value().port()};
    server_ = std::make_unique<Server>(io_, std::move(options));
    ASSERT_TRUE(server_->Start(std::move(listening).value()).ok());
    client_.connect(address_);
  }

  template <typename Done>
  bool RunUntil(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(std::chrono::milliseconds(100));
    }
    return true;
  }

  void Write(const std::string& bytes) { asio::write(client_, asio::buffer(bytes)); }

  // Runs the server until the client has read one message or the end.
  std::optional<control::FromMaster> Receive() {
    FrameReader reader;
    std::array<char, 4096> buffer;
    std::optional<control::FromMaster> out;
    bool done = false;
    std::function<void()> read = [&] {
      client_.async_read_some(asio::buffer(buffer), [&](std::error_code error, std::size_t n) {
        if (error || !reader.Feed(std::as_bytes(std::span(buffer).first(n))).ok()) {
          done = true;
          return;
        }
        if (const auto frame = reader.Next()) {
          out.emplace();
          done = ParseFrame(*frame, *out).ok();
          return;
        }
        read();
      });
    };
    read();
    EXPECT_TRUE(RunUntil([&] { return done; }));
    return out;
  }

  std::optional<control::FromMaster> AskStatus() {
    control::ToMaster status;
    status.mutable_status();
    std::string out;
    AppendFrame(status, out);
    Write(out);
    return Receive();
  }

  asio::io_context io_;
  std::unique_ptr<Server> server_;
  tcp::endpoint address_;
  tcp::socket client_{io_};
};

inline control::ToMaster HelloMessage(std::uint32_t version) {
  control::ToMaster message;
  message.mutable_hello()->set_version_min(version);
  message.mutable_hello()->set_version_max(version);
  message.mutable_hello()->set_name("d");
  message.mutable_hello()->set_address("127.0.0.1:1");
  return message;
}

// Does what the test says.
class PlayedStore final : public Store {
 public:
  void Start(StoreSink* sink) override { sink_ = sink; }
  std::optional<Status> Write(const std::vector<record::Group>& groups) override {
    written_ = groups;
    return std::nullopt;
  }
  Status Check() override { return Status::Ok(); }
  std::string Place() const override { return "played"; }

  StoreSink& sink() { return *sink_; }
  const std::vector<record::Group>& written() const { return written_; }

 private:
  StoreSink* sink_ = nullptr;
  std::vector<record::Group> written_;
};

inline std::string FrameOfHello() {
  std::string out;
  AppendFrame(HelloMessage(kProtocolVersionMax), out);
  return out;
}

}  // namespace ringway
