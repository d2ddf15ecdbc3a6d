#include "proto/stream/tcp_traffic.h"

#include <netinet/in.h>

#include <string>

#include "proto/stream/socket_options.h"
#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

class TcpTrafficTest : public NetTest {};

TEST_F(TcpTrafficTest, BytesThatTheOtherSideHasAreCountedThoughItHasNotReadThem) {
  const auto [listening, address] = ListenOnLoopback();
  const UniqueFd sender = ConnectTo(address);
  const std::uint64_t before = TrafficOf(sender.get()).delivered_bytes;
  EXPECT_LE(before, 1u) << "the handshake may count";
  WriteAll(sender.get(), std::string(5000, 'x'));
  EXPECT_TRUE(RunUntil([&] { return TrafficOf(sender.get()).delivered_bytes == before + 5000; }));
  const LaneTraffic traffic = TrafficOf(sender.get());
  EXPECT_GT(traffic.round_trip, Duration());
  EXPECT_GT(traffic.variation, Duration());
}

TEST_F(TcpTrafficTest, AFreshConnectionMaySendWhatAFreshOneMay) {
  const auto [listening, address] = ListenOnLoopback();
  const UniqueFd sender = ConnectTo(address);
  WriteAll(sender.get(), "x");
  EXPECT_TRUE(RunUntil([&] {
    const LaneTraffic traffic = TrafficOf(sender.get());
    return !traffic.in_use && traffic.fresh_window_bytes > 0 && traffic.window_bytes >= traffic.fresh_window_bytes / 2;
  }));
}

TEST_F(TcpTrafficTest, ALimitedConnectionIsNotExpectedToSendMore) {
  const auto [listening, address] = ListenOnLoopback();
  const UniqueFd sender = ConnectTo(address);
  LimitRate(sender.get(), 1000);
  WriteAll(sender.get(), "x");
  ASSERT_TRUE(RunUntil([&] { return !TrafficOf(sender.get()).in_use; }));
  const LaneTraffic traffic = TrafficOf(sender.get());
  EXPECT_LE(traffic.fresh_window_bytes, traffic.window_bytes + 1);
}

TEST_F(TcpTrafficTest, OfWhatIsNoConnectionNothingIsKnown) {
  const UniqueFd udp(::socket(AF_INET, SOCK_DGRAM, 0));
  EXPECT_EQ(TrafficOf(udp.get()).delivered_bytes, 0u);
  EXPECT_EQ(TrafficOf(-1).round_trip, Duration());
}

}  // namespace
}  // namespace ringway::net
