#include "daemon/net/tcp_traffic.h"

#include <netinet/in.h>

#include <string>

#include "tests/daemon/net/net_fixture.h"

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
  EXPECT_GT(TrafficOf(sender.get()).round_trip, Duration());
}

TEST_F(TcpTrafficTest, OfWhatIsNoConnectionNothingIsKnown) {
  const UniqueFd udp(::socket(AF_INET, SOCK_DGRAM, 0));
  EXPECT_EQ(TrafficOf(udp.get()).delivered_bytes, 0u);
  EXPECT_EQ(TrafficOf(-1).round_trip, Duration());
}

}  // namespace
}  // namespace ringway::net
