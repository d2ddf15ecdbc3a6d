#include "client/ctl/doctor/dial.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <optional>

#include "client/ctl/doctor/within.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/stream/unique_fd.h"

namespace ringway::ctl {
namespace {

using std::chrono::milliseconds;

// Longer than any segment.
constexpr std::size_t kMessageBytes = 128 << 10;
// The kernel wakes nobody when data is acknowledged, so it is polled.
constexpr milliseconds kPoll{20};
// The header of a TLS handshake record of 16 KiB, the longest.
constexpr std::array<char, 5> kTlsRecord = {0x16, 0x03, 0x01, 0x40, 0x00};
// Dials under way, each with two threads: a host that limits threads is one that needs to be looked at.
constexpr std::size_t kAtOnce = 16;
// TCP's and IP's headers with timestamps.
constexpr std::uint32_t kHeaderBytes4 = 52;
constexpr std::uint32_t kHeaderBytes6 = 72;

std::string FirstMessage(bool tls) {
  std::string bytes;
  if (tls) {
    bytes.assign(kTlsRecord.begin(), kTlsRecord.end());
    bytes += '\x01';  // ClientHello
    bytes.resize(kMessageBytes, '\0');
    return bytes;
  }
  control::LinkHello hello;
  hello.set_group(std::string(kMessageBytes, '.'));
  AppendFrame(hello, bytes);
  return bytes;
}

std::optional<tcp_info> InfoOf(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
  return info;
}

// Returns 0 or the errno of the failure.
int Connect(int fd, const net::SocketAddress& address, milliseconds timeout) {
  if (::connect(fd, address.get(), address.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd polled = {.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, static_cast<int>(timeout.count())) == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t bytes = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 ? errno : error;
}

// Sends one segment: several would travel as a large one that only some devices cut.
void SendFullSize(int fd, const DialOptions& options, DialFacts* facts) {
  std::optional<tcp_info> info = InfoOf(fd);
  if (!info || info->tcpi_snd_mss == 0) return;
  const std::string message = FirstMessage(options.tls);
  facts->segment_bytes = std::min<std::uint32_t>(info->tcpi_snd_mss, static_cast<std::uint32_t>(message.size()));
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const ssize_t sent = ::send(fd, message.data(), facts->segment_bytes, MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(facts->segment_bytes)) return;
  const TimePoint end = MonotonicNow() + options.timeout;
  for (;;) {
    int unacknowledged = 0;
    info = InfoOf(fd);
    if (!info || ::ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || info->tcpi_state == TCP_CLOSE) return;  // it was reset
    facts->path_mtu = info->tcpi_pmtu;
    if (unacknowledged == 0 || MonotonicNow() >= end) {
      facts->full_arrives = unacknowledged == 0;
      return;
    }
    (void)::poll(nullptr, 0, static_cast<int>(kPoll.count()));
  }
}

DialFacts DialOne(const DialTarget& target, const DialOptions& options) {
  DialFacts facts = {.who = target.who, .address = target.address};
  const Result<net::SocketAddress> address = ResolveWithin(target.address, options.timeout);
  if (!address.ok()) {
    facts.why = address.status().text();
    return facts;
  }
  const net::UniqueFd fd(::socket(address.value().storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int error = fd.valid() ? Connect(fd.get(), address.value(), options.timeout) : errno;
  if (error != 0) {
    facts.outcome = error == ECONNREFUSED ? DialFacts::Outcome::kRefused
                    : error == ETIMEDOUT  ? DialFacts::Outcome::kTimeout
                                          : DialFacts::Outcome::kFailed;
    facts.why = net::ErrnoStatus("connect", error).text();
    return facts;
  }
  facts.outcome = DialFacts::Outcome::kConnected;
  facts.within_host = net::IsWithinHost(fd.get());
  if (!facts.within_host) SendFullSize(fd.get(), options, &facts);
  return facts;
}

}  // namespace

Result<net::SocketAddress> ResolveWithin(const std::string& address, milliseconds timeout) {
  const Result<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  const auto resolve = [where = endpoint.value()] { return net::ResolveBlocking(where, false); };
  const auto found = Within<Result<net::SocketAddress>>(timeout, resolve);
  if (!found) return Status(Code::kTimeout, "the name in " + address + " is not resolved in time");
  return *found;
}

std::vector<DialFacts> Dial(const std::vector<DialTarget>& targets, const DialOptions& options) {
  std::vector<DialFacts> facts;
  for (std::size_t first = 0; first < targets.size(); first += kAtOnce) {
    std::vector<std::future<DialFacts>> dials;
    for (std::size_t i = first; i < std::min(first + kAtOnce, targets.size()); ++i)
      dials.push_back(std::async(std::launch::async, DialOne, targets[i], options));
    for (std::future<DialFacts>& one : dials) facts.push_back(one.get());
  }
  return facts;
}

void ReadPath(const net::SocketAddress& address, DialFacts* facts) {
  const int family = address.storage.ss_family;
  const net::UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), address.get(), address.length) != 0) return;
  facts->within_host = net::IsWithinHost(fd.get());
  int mtu = 0;
  socklen_t bytes = sizeof mtu;
  const bool four = family == AF_INET;
  if (::getsockopt(fd.get(), four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_MTU : IPV6_MTU, &mtu, &bytes) != 0) return;
  facts->path_mtu = static_cast<std::uint32_t>(std::max(mtu, 0));
  const std::uint32_t headers = four ? kHeaderBytes4 : kHeaderBytes6;
  facts->segment_bytes = facts->path_mtu - std::min(facts->path_mtu, headers);
}

}  // namespace ringway::ctl
