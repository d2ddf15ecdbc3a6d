#include "proto/stream/address.h"

#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "proto/stream/name_lookup.h"
#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

class WithinHostTest : public NetTest {
 protected:
  // Returns the address from which this host would send to somewhere far away; nothing if it has no route. Sends
  // nothing.
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

SocketAddress Numeric(const std::string& host, std::uint16_t port = 9) {
  return ResolveBlocking({.host = host, .port = port}, false).value();
}

TEST(SourceTest, EachIpv4HostOfAnIpv6SocketIsASourceOfItsOwn) {
  EXPECT_EQ(SourceOf(Numeric("::ffff:192.0.2.1")), SourceOf(Numeric("192.0.2.1")));
  EXPECT_NE(SourceOf(Numeric("::ffff:192.0.2.1")), SourceOf(Numeric("::ffff:192.0.2.2")));
  EXPECT_EQ(SourceOf(Numeric("2001:db8::1")), SourceOf(Numeric("2001:db8::2"))) << "a host may have both";
  EXPECT_NE(SourceOf(Numeric("2001:db8::1")), SourceOf(Numeric("2001:db8:0:1::1")));
}

// Else a user of this host would be as many hosts as it likes, and leave no room to others.
TEST(SourceTest, AllLoopbackAddressesAreOne) {
  for (const char* one : {"127.0.0.2", "127.255.255.254", "::1", "::ffff:127.0.0.3"})
    EXPECT_EQ(SourceOf(Numeric(one)), SourceOf(Numeric("127.0.0.1"))) << one;
  EXPECT_NE(SourceOf(Numeric("128.0.0.1")), SourceOf(Numeric("127.0.0.1")));
}

TEST(AddressTest, LookupThatTheSystemFailsSaysWhy) {
  errno = EMFILE;
  EXPECT_EQ(LookupErrorText(EAI_SYSTEM), std::generic_category().message(EMFILE));
  EXPECT_EQ(LookupErrorText(EAI_NONAME), ::gai_strerror(EAI_NONAME));
}

TEST(AddressTest, Ipv4InIpv6NotationIsIpv4) {
  EXPECT_EQ(ToString(Numeric("::ffff:192.0.2.1", 7000)), "192.0.2.1:7000");
  EXPECT_EQ(HostOf(Numeric("::ffff:192.0.2.1")), "192.0.2.1");
  EXPECT_TRUE(IsLoopback(Numeric("::ffff:127.0.0.2")));
  EXPECT_FALSE(IsLoopback(Numeric("::ffff:192.0.2.1")));
  EXPECT_TRUE(IsWildcard(Numeric("::ffff:0.0.0.0")));
}

// The two ends of one connection say the address each in its own family.
TEST_F(WithinHostTest, Ipv4ClientOfAnIpv6SocketIsTheHostThatItIs) {
  const auto listening = ListenTcp(Numeric("::", 0));
  if (!listening.ok()) GTEST_SKIP() << "no IPv6 here: " << listening.status().text();
  const std::uint16_t port = LocalAddress(listening.value().get()).value().port();
  const UniqueFd client = ConnectTo("127.0.0.2:" + std::to_string(port));
  const UniqueFd accepted(::accept4(listening.value().get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.valid());
  const SocketAddress remote = RemoteAddress(accepted.get()).value();
  EXPECT_EQ(ToString(remote), ToString(LocalAddress(client.get()).value()));
  EXPECT_EQ(SourceOf(remote), SourceOf(LocalAddress(client.get()).value()));
  EXPECT_TRUE(IsWithinHost(accepted.get()));
}

}  // namespace
}  // namespace ringway::net
