// Host and port as the kernel's socket address. Values; any thread. Errors: kInvalidArgument and kIo with a sentence
// that names the address.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {

// Never an IPv4-mapped IPv6 address ("::ffff:192.0.2.1"), as sockets of [::] report them: AddressOf converts.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::uint16_t port() const;
};

// REQUIRES: `length` bytes at `address`, of AF_INET or AF_INET6.
SocketAddress AddressOf(const sockaddr* address, socklen_t length);

bool IsLoopback(const SocketAddress& address);
// 0.0.0.0 or [::].
bool IsWildcard(const SocketAddress& address);
std::string ToString(const SocketAddress& address);

// Returns whether `host` is an address, which needs no lookup.
bool IsNumericHost(const std::string& host);
// Returns the first address of `where`. Blocks on the resolver: for start-up only.
Result<SocketAddress> ResolveBlocking(const Endpoint& where, bool passive);

// Returns a listening TCP socket, non-blocking.
Result<UniqueFd> ListenTcp(const SocketAddress& where);
// Returns Ok if ListenTcp would succeed provided that nobody listens there now. Does not listen.
Status CheckListenTcp(const SocketAddress& where);
// The addresses that a socket is bound and connected to.
Result<SocketAddress> LocalAddress(int fd);
Result<SocketAddress> RemoteAddress(int fd);

// The key by which a host's connections are counted: the IPv4 address, or the IPv6 network, all of whose addresses one
// host may have. All loopback addresses are one key: every user of this host has 16 million of them.
std::string SourceOf(const SocketAddress& address);
std::string HostOf(const SocketAddress& address);  // without the port

// Returns whether both ends of a connection are on this host, whatever their addresses; false if it has no two ends.
bool IsWithinHost(int fd);

// "what: reason of errno".
Status ErrnoStatus(const std::string& what, int error);

}  // namespace ringway::net
