#include "proto/stream/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <string>

#include "proto/lane_roles.h"
#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

int OptionOf(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &length), 0);
  return value;
}

TEST(SocketOptionsTest, LanesOfAPairShareTheUnsentBound) {
  for (const std::uint32_t lanes : {1U, 2U, 8U, 64U, 128U}) {
    EXPECT_LE(NotSentBytes(lanes) * lanes, kNotSentBytesMax) << lanes;
    std::uint32_t all = 0;
    for (std::uint32_t lane = 0; lane < kLanesMax; ++lane) all += NotSentBytes(SharersOf(lane, lanes));
    EXPECT_LE(all, 2 * kNotSentBytesMax) << lanes << ", and those that came later";
  }
}

TEST(SocketOptionsTest, TuningSetsWhatItSaysAndLeavesTheBuffersAlone) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const UniqueFd plain(::socket(AF_INET, SOCK_STREAM, 0));
  TuneLink(fd.get(), {.detect_ms = 3000, .lanes = 8, .loopback = true, .congestion = {}});
  EXPECT_EQ(OptionOf(fd.get(), IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(OptionOf(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT), 3000);
  EXPECT_EQ(OptionOf(fd.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT), static_cast<int>(NotSentBytes(8)));
  EXPECT_EQ(OptionOf(fd.get(), SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(OptionOf(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE), 30) << "idle lanes are many, and cost day and night";
  for (const int name : {SO_SNDBUF, SO_RCVBUF}) {
    EXPECT_EQ(OptionOf(fd.get(), SOL_SOCKET, name), OptionOf(plain.get(), SOL_SOCKET, name));
  }
}

TEST(SocketOptionsTest, CongestionControlGoesByTheRoundTrip) {
  using std::chrono::microseconds;
  const LinkTuning tuning;
  EXPECT_EQ(CongestionFor(tuning, microseconds(400)), "cubic");
  EXPECT_EQ(CongestionFor(tuning, microseconds(1000)), "bbr");
  EXPECT_EQ(CongestionFor(tuning, Duration()), "bbr") << "nothing is known: a handshake that lost a packet";
  EXPECT_EQ(CongestionFor({.loopback = true, .congestion = {}}, Duration()), "cubic");
  EXPECT_EQ(CongestionFor({.congestion = "reno"}, microseconds(400)), "reno");
  EXPECT_EQ(CongestionFor({.congestion = "reno"}, microseconds(100'000)), "reno");
}

TEST(SocketOptionsTest, UnknownCongestionControlIsNamed) {
  const Status status = CheckCongestion("no_such");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find("no_such"), std::string::npos);
}

TEST(AddressTest, LoopbackAndWildcardAreRecognised) {
  EXPECT_TRUE(IsLoopback(ResolveBlocking({.host = "127.8.0.1", .port = 1}, false).value()));
  EXPECT_TRUE(IsLoopback(ResolveBlocking({.host = "::1", .port = 1}, false).value()));
  EXPECT_FALSE(IsLoopback(ResolveBlocking({.host = "192.0.2.1", .port = 1}, false).value()));
  EXPECT_TRUE(IsWildcard(ResolveBlocking({.host = "0.0.0.0", .port = 1}, true).value()));
  EXPECT_EQ(ToString(ResolveBlocking({.host = "::1", .port = 8}, false).value()), "[::1]:8");
}

TEST(SocketOptionsTest, ARenewedConnectionKeepsItsCongestionControl) {
  for (const std::string name : {"cubic", "reno", "bbr"}) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) != 0)
      continue;
    RenewCongestion(fd.get());
    std::array<char, 16> now{};
    socklen_t bytes = now.size();
    ASSERT_EQ(::getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, now.data(), &bytes), 0);
    EXPECT_EQ(std::string(now.data()), name);
  }
}

}  // namespace
}  // namespace ringway::net
