// An event loop that a test steps by hand, and connected sockets. No fixed sleeps: RunUntil steps until a condition
// holds.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "proto/frame_codec.h"
#include "proto/stream/address.h"
#include "proto/stream/tcp_stream.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {

class NetTest : public ::testing::Test {
 protected:
  // Returns false after a minute without `done`.
  bool RunUntil(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  // Runs what is ready, without waiting.
  void Settle() {
    for (int i = 0; i < 16; ++i) {
      context_.restart();
      context_.poll();
    }
  }

  // A stream, and its other end for the test.
  static std::pair<std::unique_ptr<Stream>, UniqueFd> StreamPair() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
    return {std::make_unique<TcpStream>(UniqueFd(fds[0])), UniqueFd(fds[1])};
  }
  // Returns what it has read already, up to 64 KiB.
  static std::string UnreadOf(Stream& stream) {
    std::string out(64 * 1024, '\0');
    out.resize(stream.Read(std::as_writable_bytes(std::span(out))).bytes);
    return out;
  }

  static std::string CongestionOf(Stream& stream) { return CongestionOf(dynamic_cast<TcpPath&>(stream.path()).fd()); }
  static std::string CongestionOf(int fd) {
    std::array<char, 16> name{};
    socklen_t length = name.size();
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length), 0);
    return name.data();
  }

  static void WriteAll(int fd, std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  static void WriteAll(int fd, const std::string& bytes) { WriteAll(fd, std::as_bytes(std::span(bytes))); }
  static std::string ReadAvailable(int fd) {
    std::string out;
    std::array<char, 64 * 1024> buffer{};
    for (;;) {
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got <= 0) return out;
      out.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
  // Returns whether the other side has closed (after everything it sent was read).
  static bool IsClosed(int fd) {
    std::array<char, 4096> buffer{};
    for (;;) {
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got == 0) return true;
      if (got < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    }
  }

  static std::pair<UniqueFd, std::string> ListenOnLoopback() {
    auto where = ResolveBlocking({.host = "127.0.0.1", .port = 0}, true);
    auto fd = ListenTcp(where.value());
    auto bound = LocalAddress(fd.value().get());
    return {std::move(fd.value()), ToString(bound.value())};
  }
  static UniqueFd ConnectTo(const std::string& address) {
    const auto where = ResolveBlocking(ParseEndpoint(address).value(), false);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), where.value().get(), where.value().length), 0);
    return fd;
  }
  UniqueFd AcceptOn(int listening) {
    UniqueFd accepted;
    EXPECT_TRUE(RunUntil([&] {
      accepted.Reset(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      return accepted.valid();
    }));
    return accepted;
  }
  // The next frame that arrives on `fd`, as a message.
  template <typename Message>
  Message NextFrame(int fd) {
    Message message;
    FrameReader& reader = readers_[fd];
    std::optional<std::span<const std::byte>> frame;
    EXPECT_TRUE(RunUntil([&] {
      const std::string bytes = ReadAvailable(fd);
      if (!bytes.empty()) {
        EXPECT_TRUE(reader.Feed(std::as_bytes(std::span(bytes))).ok());
      }
      frame = reader.Next();
      return frame.has_value();
    }));
    if (frame.has_value()) {
      EXPECT_TRUE(ParseFrame(*frame, message).ok());
    }
    return message;
  }
  static std::string FrameOf(const google::protobuf::MessageLite& message) {
    std::string frame;
    AppendFrame(message, frame);
    return frame;
  }

  asio::io_context context_;

 private:
  std::map<int, FrameReader> readers_;
};

}  // namespace ringway::net
