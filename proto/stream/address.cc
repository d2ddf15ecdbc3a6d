#include "proto/stream/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "proto/stream/name_lookup.h"

namespace ringway::net {
namespace {

constexpr int kBacklog = SOMAXCONN;

const sockaddr_in& AsV4(const SocketAddress& address) { return reinterpret_cast<const sockaddr_in&>(address.storage); }
const sockaddr_in6& AsV6(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

bool IsSameHost(const SocketAddress& a, const SocketAddress& b) {
  if (a.storage.ss_family != b.storage.ss_family) return false;
  if (a.storage.ss_family == AF_INET) return AsV4(a).sin_addr.s_addr == AsV4(b).sin_addr.s_addr;
  return a.storage.ss_family == AF_INET6 && std::memcmp(&AsV6(a).sin6_addr, &AsV6(b).sin6_addr, sizeof(in6_addr)) == 0;
}

Result<SocketAddress> AddressBy(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (ask(fd, address, &length) == 0) return AddressOf(address, length);
  return ErrnoStatus("cannot read a socket's address", errno);
}

UniqueFd BindTcp(const SocketAddress& where) {
  UniqueFd fd(::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (fd.valid()) (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd.valid() && ::bind(fd.get(), where.get(), where.length) == 0 ? std::move(fd) : UniqueFd();
}

Status ListenFailure(const SocketAddress& where, int error) {
  return {Code::kIo, ErrnoStatus("cannot listen on " + ToString(where), error).text() + "; " + ListenRemedy(error)};
}

}  // namespace

Status ErrnoStatus(const std::string& what, int error) {
  return {Code::kIo, what + ": " + std::error_code(error, std::generic_category()).message()};
}

SocketAddress AddressOf(const sockaddr* address, socklen_t length) {
  SocketAddress out;
  std::memcpy(&out.storage, address, length);
  out.length = length;
  const sockaddr_in6& v6 = AsV6(out);
  if (out.storage.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return out;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  std::memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
  return AddressOf(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
}

std::uint16_t SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? AsV6(*this).sin6_port : AsV4(*this).sin_port);
}

bool IsLoopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) return (ntohl(AsV4(address).sin_addr.s_addr) >> 24) == 127;
  return address.storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&AsV6(address).sin6_addr);
}

bool IsWildcard(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) return AsV4(address).sin_addr.s_addr == htonl(INADDR_ANY);
  const in6_addr& v6 = AsV6(address).sin6_addr;
  return address.storage.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

std::string ToString(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  const std::string port = ":" + std::to_string(address.port());
  if (address.storage.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &AsV6(address).sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]" + port;
  }
  ::inet_ntop(AF_INET, &AsV4(address).sin_addr, text, sizeof text);
  return text + port;
}

bool IsNumericHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

Result<SocketAddress> ResolveBlocking(const Endpoint& where, bool passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found);
  if (error != 0) {
    const std::string why = LookupErrorText(error);
    return Status(Code::kInvalidArgument, "cannot resolve '" + where.host + "': " + why);
  }
  const SocketAddress address = AddressOf(found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

Result<UniqueFd> ListenTcp(const SocketAddress& where) {
  UniqueFd fd = BindTcp(where);
  if (!fd.valid() || ::listen(fd.get(), kBacklog) != 0) return ListenFailure(where, errno);
  return fd;
}

Status CheckListenTcp(const SocketAddress& where) {
  if (BindTcp(where).valid() || errno == EADDRINUSE) return Status::Ok();
  return ListenFailure(where, errno);
}

Result<SocketAddress> LocalAddress(int fd) { return AddressBy(::getsockname, fd); }

Result<SocketAddress> RemoteAddress(int fd) { return AddressBy(::getpeername, fd); }

std::string HostOf(const SocketAddress& address) {
  const std::string text = ToString(address);
  return text.substr(0, text.rfind(':'));
}

std::string SourceOf(const SocketAddress& address) {
  constexpr std::size_t kNetworkBytes = 8;
  if (IsLoopback(address)) return "loopback";
  if (address.storage.ss_family == AF_INET6) {
    return {reinterpret_cast<const char*>(&AsV6(address).sin6_addr), kNetworkBytes};
  }
  return HostOf(address);
}

bool IsWithinHost(int fd) {
  const auto local = LocalAddress(fd);
  const auto remote = RemoteAddress(fd);
  return local.ok() && remote.ok() && (IsLoopback(local.value()) || IsSameHost(local.value(), remote.value()));
}

}  // namespace ringway::net
