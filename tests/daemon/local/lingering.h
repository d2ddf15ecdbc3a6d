// A socket whose last close blocks for an hour, unless its peer goes: of a stranger's making.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "proto/stream/unique_fd.h"

namespace ringway::local {

struct Lingering {
  net::UniqueFd sender;
  net::UniqueFd peer;  // that reads nothing
};

inline Lingering MakeLingering() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* where = reinterpret_cast<sockaddr*>(&address);
  const net::UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Lingering made{.sender = net::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .peer = {}};
  const bool connected = ::bind(listening.get(), where, length) == 0 && ::listen(listening.get(), 1) == 0 &&
                         ::getsockname(listening.get(), where, &length) == 0 &&
                         ::connect(made.sender.get(), where, length) == 0;
  if (!connected) return {};
  made.peer.Reset(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  (void)::fcntl(made.sender.get(), F_SETFL, O_NONBLOCK);
  const std::array<char, 64 * 1024> bytes{};
  while (::send(made.sender.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) continue;
  constexpr linger kAnHour{.l_onoff = 1, .l_linger = 3600};
  (void)::setsockopt(made.sender.get(), SOL_SOCKET, SO_LINGER, &kAnHour, sizeof kAnHour);
  return made;
}

}  // namespace ringway::local
