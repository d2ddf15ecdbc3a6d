#include "proto/endpoint.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace ringway {
namespace {

TEST(ParseEndpointTest, TakesHostsAndAddressesWithAPort) {
  struct Row {
    const char* text;
    const char* host;
    std::uint16_t port;
    const char* again;
  };
  const Row rows[] = {
      {"127.0.0.1:7400", "127.0.0.1", 7400, "127.0.0.1:7400"},
      {"localhost:0", "localhost", 0, "localhost:0"},
      {"node-3.cluster.example:65535", "node-3.cluster.example", 65535, "node-3.cluster.example:65535"},
      {"[::1]:80", "::1", 80, "[::1]:80"},
      {"[fe80::1%eth0]:1", "fe80::1%eth0", 1, "[fe80::1%eth0]:1"},
      {"[10.0.0.1]:5", "10.0.0.1", 5, "10.0.0.1:5"},
      {"a:007", "a", 7, "a:7"},
  };
  for (const Row& row : rows) {
    const auto endpoint = ParseEndpoint(row.text);
    ASSERT_TRUE(endpoint.ok()) << row.text << ": " << endpoint.status().text();
    EXPECT_EQ(endpoint.value().host, row.host);
    EXPECT_EQ(endpoint.value().port, row.port);
    EXPECT_EQ(ToString(endpoint.value()), row.again);
  }
}

TEST(ParseEndpointTest, RefusesEverythingElseAndNamesIt) {
  for (const char* text : {"",        ":",       ":80",     "host",    "host:",     "host:65536",
                           "host:-1", "host:+1", "host: 1", "host:1 ", "host:0x10", "host:99999999999",
                           "::1:80",  "::1",     "[::1]",   "[::1]80", "[]:80",     "1:2:3",
                           "host:1x", "[::1:1"}) {
    const auto endpoint = ParseEndpoint(text);
    EXPECT_FALSE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint.status().code(), Code::kInvalidArgument);
    EXPECT_NE(endpoint.status().text().find("'" + std::string(text) + "'"), std::string::npos)
        << endpoint.status().text();
  }
}

TEST(ParseEndpointToDialTest, PortZeroIsRefusedWithWhatToGive) {
  EXPECT_EQ(ParseEndpointToDial("host:7400").value().port, 7400);
  const Status zero = ParseEndpointToDial("host:0").status();
  EXPECT_EQ(zero.code(), Code::kInvalidArgument);
  EXPECT_NE(zero.text().find("'host:0' has port 0"), std::string::npos) << zero.text();
  EXPECT_FALSE(ParseEndpointToDial("host").ok());
}

TEST(ParseEndpointsToDialTest, TakesSeveralAndRefusesWhatIsNone) {
  const auto two = ParseEndpointsToDial("a:1,[::1]:2");
  ASSERT_TRUE(two.ok()) << two.status().text();
  ASSERT_EQ(two.value().size(), 2U);
  EXPECT_EQ(ToString(two.value()[1]), "[::1]:2");
  const auto spaced = ParseEndpointsToDial(" a:1, [::1]:2\t,b:3 ");
  ASSERT_TRUE(spaced.ok()) << spaced.status().text();
  ASSERT_EQ(spaced.value().size(), 3U);
  EXPECT_EQ(spaced.value()[0].host, "a");
  EXPECT_EQ(ToString(spaced.value()[1]), "[::1]:2");
  EXPECT_EQ(ParseEndpointsToDial("a:1, ,b:2").status().code(), Code::kInvalidArgument);
  std::string many = "h:1";
  for (std::size_t port = 2; port <= kEndpointsMax; ++port) many += ",h:" + std::to_string(port);
  EXPECT_TRUE(ParseEndpointsToDial(many).ok());
  for (const std::string& text : {std::string(""), std::string("a:1,"), std::string(",a:1"), std::string("a:1,a:1"),
                                  std::string("a:1,b:0"), many + ",h:99"}) {
    EXPECT_EQ(ParseEndpointsToDial(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(ListenRemedyTest, IsAboutThePortOnlyWhereThePortIsInTheWay) {
  EXPECT_NE(ListenRemedy(EADDRINUSE).find("another port"), std::string::npos);
  EXPECT_NE(ListenRemedy(EACCES).find("1024"), std::string::npos);
  EXPECT_NE(ListenRemedy(EADDRNOTAVAIL).find("this host has"), std::string::npos);
  EXPECT_EQ(ListenRemedy(EADDRNOTAVAIL).find("port"), std::string::npos);
}

}  // namespace
}  // namespace ringway
