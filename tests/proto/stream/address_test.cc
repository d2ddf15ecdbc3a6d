#include "proto/stream/address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

class WithinHostTest : public NetTest {
 protected:
  // As this host would send to somewhere far away; nothing is sent. Nothing if it has no way there.
  static std::optional<SocketAddress> OwnAddress() {
    const auto far = ResolveBlocking({.host = "192.0.2.1", .port = 9}, false);
    const UniqueFd udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::connect(udp.get(), far.value().get(), far.value().length) != 0) return std::nullopt;
    SocketAddress own = LocalAddress(udp.get()).value();
    reinterpret_cast<sockaddr_in&>(own.storage).sin_port = 0;
    return own;
  }
};

TEST_F(WithinHostTest, LoopbackConnectionsStayWithinTheHost) {
  const auto [listening, address] = ListenOnLoopback();
  const UniqueFd end = ConnectTo(address);
  EXPECT_TRUE(IsWithinHost(end.get()));
  EXPECT_FALSE(IsWithinHost(listening.get())) << "it has one end only";
}

TEST_F(WithinHostTest, ConnectionsToTheHostsOwnAddressStayWithinItToo) {
  const auto own = OwnAddress();
  if (!own) GTEST_SKIP() << "this host has no other address";
  const auto listening = ListenTcp(*own);
  ASSERT_TRUE(listening.ok()) << listening.status().text();
  const UniqueFd end = ConnectTo(ToString(LocalAddress(listening.value().get()).value()));
  EXPECT_TRUE(IsWithinHost(end.get()));
}

}  // namespace
}  // namespace ringway::net
