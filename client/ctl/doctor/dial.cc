#include "client/ctl/doctor/dial.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "client/ctl/doctor/within.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/stream/address.h"
#include "proto/stream/unique_fd.h"

namespace ringway::ctl {
namespace {

using std::chrono::milliseconds;

// Longer than any segment.
constexpr std::size_t kMessageBytes = 128 << 10;
// Between two looks at what has been acknowledged, which wakes nobody up.
constexpr milliseconds kLook{20};
// A TLS record of 16 KiB, the longest, of a handshake.
constexpr std::array<char, 5> kTlsRecord = {0x16, 0x03, 0x01, 0x40, 0x00};

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

milliseconds Until(TimePoint end) {
  return std::max(std::chrono::ceil<milliseconds>(end - MonotonicNow()), milliseconds(0));
}

std::optional<tcp_info> InfoOf(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
  return info;
}

bool IsNumber(const std::string& address) {
  const Result<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return true;  // refused at once
  std::array<std::byte, sizeof(in6_addr)> parsed{};
  const std::string& host = endpoint.value().host;
  return ::inet_pton(AF_INET, host.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), parsed.data()) == 1;
}

// One connection on its way:  dialling --> sending --> over.
class Attempt {
 public:
  Attempt(const DialTarget& target, const Result<net::SocketAddress>& address) {
    facts_.who = target.who;
    facts_.address = target.address;
    if (address.ok()) {
      Connect(address.value());
    } else {
      facts_.why = address.status().text();
    }
  }

  bool over() const { return !socket_.valid(); }
  bool dialling() const { return !over() && !connected_; }
  int fd() const { return socket_.get(); }
  DialFacts TakeFacts() { return std::move(facts_); }

  void OnWritable(const std::string& message) {
    int error = 0;
    socklen_t bytes = sizeof error;
    if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
    if (error != 0) return OnError(error);
    connected_ = true;
    facts_.outcome = DialFacts::Outcome::kConnected;
    facts_.within_host = net::IsWithinHost(fd());
    const std::optional<tcp_info> info = InfoOf(fd());
    if (facts_.within_host || !info || info->tcpi_snd_mss == 0) return socket_.Reset();
    // One segment: several would travel as a large one that the device cuts, or does not.
    facts_.segment_bytes = std::min<std::uint32_t>(info->tcpi_snd_mss, static_cast<std::uint32_t>(message.size()));
    const int on = 1;
    ::setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::send(fd(), message.data(), facts_.segment_bytes, MSG_NOSIGNAL) !=
        static_cast<ssize_t>(facts_.segment_bytes)) {
      socket_.Reset();
    }
  }

  // Whether it was acknowledged meanwhile, or never will be.
  void Look() {
    int unacknowledged = 0;
    const std::optional<tcp_info> info = InfoOf(fd());
    if (!info || ::ioctl(fd(), SIOCOUTQ, &unacknowledged) != 0) return socket_.Reset();
    facts_.path_mtu = info->tcpi_pmtu;
    if (info->tcpi_state == TCP_CLOSE) return socket_.Reset();  // it was reset: nothing is known
    if (unacknowledged == 0) Finish(true);
  }

  void OnDeadline() {
    if (!connected_) {
      facts_.outcome = DialFacts::Outcome::kTimeout;
      return socket_.Reset();
    }
    Finish(false);
  }

 private:
  void Connect(const net::SocketAddress& address) {
    socket_.Reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_.valid()) return OnError(errno);
    if (::connect(socket_.get(), address.get(), address.length) != 0 && errno != EINPROGRESS) OnError(errno);
  }
  void Finish(bool arrives) {
    facts_.full_arrives = arrives;
    socket_.Reset();
  }
  void OnError(int error) {
    if (error == ECONNREFUSED) {
      facts_.outcome = DialFacts::Outcome::kRefused;
    } else if (error == ETIMEDOUT) {
      facts_.outcome = DialFacts::Outcome::kTimeout;
    } else {
      facts_.why = net::ErrnoStatus("connect", error).text();
    }
    socket_.Reset();
  }

  DialFacts facts_;
  net::UniqueFd socket_;
  bool connected_ = false;
};

using Attempts = std::vector<Attempt>;

// Runs `step` until no attempt is `open`, or the time is over.
template <typename Open, typename Step>
void Work(Attempts& attempts, TimePoint end, const Open& open, const Step& step) {
  for (;;) {
    std::vector<Attempt*> left;
    for (Attempt& one : attempts) {
      if (open(one)) left.push_back(&one);
    }
    if (left.empty()) return;
    const milliseconds wait = Until(end);
    if (wait == milliseconds(0)) {
      for (Attempt* one : left) one->OnDeadline();
      return;
    }
    step(left, wait);
  }
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
  const std::string message = FirstMessage(options.tls);
  Attempts attempts;
  attempts.reserve(targets.size());
  // Numbers are read in no time: a name that is not resolved takes none from them, or from the dials.
  std::vector<Result<net::SocketAddress>> addresses(targets.size(), Status(Code::kTimeout, "not resolved"));
  const TimePoint resolved = MonotonicNow() + options.timeout;
  for (const bool numbers : {true, false}) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (IsNumber(targets[i].address) == numbers) addresses[i] = ResolveWithin(targets[i].address, Until(resolved));
    }
  }
  const TimePoint connected = MonotonicNow() + options.timeout;
  for (std::size_t i = 0; i < targets.size(); ++i) attempts.emplace_back(targets[i], addresses[i]);
  Work(
      attempts, connected, [](const Attempt& one) { return one.dialling(); },
      [&message](const std::vector<Attempt*>& left, milliseconds wait) {
        std::vector<pollfd> polled;
        for (const Attempt* one : left) polled.push_back({.fd = one->fd(), .events = POLLOUT, .revents = 0});
        if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) <= 0) return;
        for (std::size_t i = 0; i < left.size(); ++i) {
          if (polled[i].revents != 0) left[i]->OnWritable(message);
        }
      });
  Work(
      attempts, MonotonicNow() + options.timeout, [](const Attempt& one) { return !one.over(); },
      [](const std::vector<Attempt*>& left, milliseconds wait) {
        (void)::poll(nullptr, 0, static_cast<int>(std::min(wait, kLook).count()));
        for (Attempt* one : left) one->Look();
      });
  std::vector<DialFacts> facts;
  for (Attempt& one : attempts) facts.push_back(one.TakeFacts());
  return facts;
}

}  // namespace ringway::ctl
