#include "tests/e2e/intruder.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "proto/frame_codec.h"

namespace ringway::e2e {

Intruder Intruder::ToPort(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  EXPECT_EQ(::inet_pton(AF_INET, address.substr(0, colon).c_str(), &in.sin_addr), 1) << address;
  net::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in), 0) << address;
  return Intruder(std::move(fd));
}

void Intruder::Say(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Intruder::Say(const google::protobuf::MessageLite& message) {
  std::string frame;
  AppendFrame(message, frame);
  Say(frame);
}

bool Intruder::Receive() {
  constexpr int kPatienceMs = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  pollfd readable{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, kPatienceMs) != 1) {
    ADD_FAILURE() << "the other side neither speaks nor closes";
    return false;
  }
  char bytes[4096];
  const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  got_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

bool Intruder::WaitForClose() {
  while (Receive()) got_.clear();
  char byte = 0;
  const ssize_t got = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

std::uint32_t Intruder::WaitForLinkReply() {
  FrameReader reader;
  for (;;) {
    if (!Receive()) return kCodeCount;
    EXPECT_TRUE(reader.Feed(std::as_bytes(std::span(got_))).ok());
    got_.clear();
    const auto frame = reader.Next();
    if (!frame.has_value()) continue;
    control::LinkReply reply;
    EXPECT_TRUE(ParseFrame(*frame, reply).ok());
    return reply.code();
  }
}

}  // namespace ringway::e2e
