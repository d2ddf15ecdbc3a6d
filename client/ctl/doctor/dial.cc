#include "client/ctl/doctor/dial.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>

#include "client/ctl/doctor/within.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/frame_codec.h"

namespace ringway::ctl {
namespace {

using std::chrono::milliseconds;

// The beginning of a message that is longer than any segment.
std::string FirstMessage(bool tls) {
  constexpr std::size_t kBytes = 128 << 10;
  std::string bytes;
  if (tls) {
    bytes = {0x16, 0x03, 0x01, 0x40, 0x00, 0x01};  // the header of a TLS record of 16 KiB, and a ClientHello's type
    bytes.resize(kBytes, '\0');
  } else {
    control::LinkHello hello;
    hello.set_group(std::string(kBytes, '.'));
    AppendFrame(hello, bytes);
  }
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
  for (const TimePoint end = MonotonicNow() + options.timeout; !facts->full_arrives;) {
    int unacknowledged = 0;
    info = InfoOf(fd);
    if (!info || ::ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || info->tcpi_state == TCP_CLOSE) return;  // it was reset
    facts->path_mtu = info->tcpi_pmtu;
    if (unacknowledged == 0 || MonotonicNow() >= end) facts->full_arrives = unacknowledged == 0;
    (void)::poll(nullptr, 0, 20);  // the kernel wakes nobody when data is acknowledged
  }
}

// Sets `is_resolved` once only stages follow that have a limit of their own.
Result<DialFacts> DialOne(DialFacts facts, const DialOptions& options, std::atomic<bool>* is_resolved) {
  const Result<net::SocketAddress> address = Resolve(facts.address);
  if (!address.ok()) return address.status();
  *is_resolved = true;
  const net::UniqueFd fd(::socket(address.value().storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int error = fd.valid() ? Connect(fd.get(), address.value(), options.timeout) : errno;
  if (error != 0 && error != ECONNREFUSED && error != ETIMEDOUT) return net::ErrnoStatus("connect", error);
  facts.outcome = error == 0              ? DialFacts::Outcome::kConnected
                  : error == ECONNREFUSED ? DialFacts::Outcome::kRefused
                                          : DialFacts::Outcome::kTimeout;
  facts.within_host = error == 0 && net::IsWithinHost(fd.get());
  if (error == 0 && !facts.within_host) SendFullSize(fd.get(), options, &facts);
  return facts;
}

}  // namespace

Result<net::SocketAddress> Resolve(const std::string& address) {
  const Result<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  return net::ResolveBlocking(endpoint.value(), false);
}

std::vector<DialFacts> Dial(std::vector<DialFacts> dials, const DialOptions& options) {
  std::vector<Errand<DialFacts>> errands;
  errands.reserve(dials.size());
  std::vector<std::shared_ptr<std::atomic<bool>>> resolved;
  for (const DialFacts& dial : dials) {
    resolved.push_back(std::make_shared<std::atomic<bool>>(false));
    errands.emplace_back([dial, options, done = resolved.back()] { return DialOne(dial, options, done.get()); });
  }
  const TimePoint end = MonotonicNow() + 3 * options.timeout;
  for (std::size_t i = 0; i < dials.size(); ++i) {
    const auto left = std::max(std::chrono::ceil<milliseconds>(end - MonotonicNow()), milliseconds(0));
    const Awaited<DialFacts> done = errands[i].Await(left, "its name is not resolved in time");
    if (!done) {
      dials[i].outcome = DialFacts::Outcome::kNoThread;
    } else if (done->ok()) {
      dials[i] = done->value();
    } else if (done->status().code() == Code::kTimeout && *resolved[i]) {
      dials[i].why = "its name is resolved so slowly that no time is left to dial it";
    } else {
      dials[i].why = done->status().text();
    }
  }
  return dials;
}

void ReadPath(const net::SocketAddress& address, DialFacts* facts) {
  const bool four = address.storage.ss_family == AF_INET;
  const std::uint32_t headers = four ? 52 : 72;  // TCP's and IP's with timestamps
  const net::UniqueFd fd(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), address.get(), address.length) != 0) return;
  facts->within_host = net::IsWithinHost(fd.get());
  int mtu = 0;
  socklen_t bytes = sizeof mtu;
  if (::getsockopt(fd.get(), four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_MTU : IPV6_MTU, &mtu, &bytes) != 0) return;
  facts->path_mtu = static_cast<std::uint32_t>(std::max(mtu, 0));
  facts->segment_bytes = facts->path_mtu - std::min(facts->path_mtu, headers);
}

}  // namespace ringway::ctl
