#include "proto/shell/places.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "proto/stream/address.h"
#include "proto/stream/unique_fd.h"

namespace ringway::shell {
namespace {

class PlacesTest : public ::testing::Test {
 protected:
  PlacesTest() {
    std::string name = "/tmp/ringway_places_XXXXXX";
    directory_ = ::mkdtemp(name.data());
    std::ofstream(directory_ + "/file") << "text";
  }
  ~PlacesTest() override { std::filesystem::remove_all(directory_); }

  static void ExpectRefused(const Status& status, const std::string& word) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.text().find("--x: "), std::string::npos) << status.text();
    EXPECT_NE(status.text().find(word), std::string::npos) << status.text();
  }

  std::string directory_;
};

TEST_F(PlacesTest, FileIsWrittenToWhereItIsOrInADirectoryThatIsThere) {
  EXPECT_TRUE(CheckFilePlace({.option = "--x", .path = directory_ + "/file"}).ok());
  EXPECT_TRUE(CheckFilePlace({.option = "--x", .path = directory_ + "/new"}).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/new"));
  ExpectRefused(CheckFilePlace({.option = "--x", .path = directory_}), "is a directory");
  ExpectRefused(CheckFilePlace({.option = "--x", .path = directory_ + "/no/new"}), "there is no directory");
  ExpectRefused(CheckFilePlace({.option = "--x", .path = directory_ + "/file/new"}), "no directory");
}

TEST_F(PlacesTest, DirectoriesAreMadeWhereTheProgramMakesThem) {
  EXPECT_TRUE(CheckFilePlace({.option = "--x", .path = directory_ + "/a/b/new", .makes_directories = true}).ok());
  ExpectRefused(CheckFilePlace({.option = "--x", .path = directory_ + "/file/b/new", .makes_directories = true}),
                "is no directory");
  EXPECT_TRUE(CheckSocketPlace("--x", directory_ + "/a/b/socket").ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/a"));
}

TEST_F(PlacesTest, WhatMayNotBeWrittenIsRefused) {
  if (::getuid() == 0) GTEST_SKIP() << "root may write anywhere";
  ExpectRefused(CheckFilePlace({.option = "--x", .path = "/etc/passwd"}), "cannot write");
  ExpectRefused(CheckSocketPlace("--x", "/etc/socket"), "cannot make files in /etc");
}

TEST_F(PlacesTest, SocketReplacesASocketAlone) {
  ExpectRefused(CheckSocketPlace("--x", directory_ + "/file"), "is no socket");
  ExpectRefused(CheckSocketPlace("--x", directory_ + "/" + std::string(200, 's')), "shorter");
}

TEST_F(PlacesTest, PortIsOfThisHostAndMayBeInUse) {
  const auto any = net::ResolveBlocking({.host = "127.0.0.1", .port = 0}, true);
  const auto listening = net::ListenTcp(any.value());
  ASSERT_TRUE(listening.ok());
  const std::string taken = net::ToString(net::LocalAddress(listening.value().get()).value());
  EXPECT_TRUE(CheckListenPlace("--x", taken).ok()) << "the program may run already";
  EXPECT_TRUE(CheckListenPlace("--x", "127.0.0.1:0").ok());
  ExpectRefused(CheckListenPlace("--x", "192.0.2.1:7400"), "cannot listen on 192.0.2.1:7400");
  ExpectRefused(CheckListenPlace("--x", "nowhere"), "nowhere");
}

net::SocketAddress Numeric(const std::string& host) {
  return net::ResolveBlocking({.host = host, .port = 17}, true).value();
}

void ExpectListenRefused(const std::string& host, const std::string& is, Reach reach, const std::string& word) {
  const Status refused = CheckListenAddress("--listen", {host, 17}, Numeric(is), reach);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << host;
  EXPECT_NE(refused.text().find("--listen " + host + ":17"), std::string::npos) << refused.text();
  EXPECT_NE(refused.text().find(word), std::string::npos) << refused.text();
}

TEST(ListenAddressTest, OtherHostsAreForWhoAllowsThem) {
  for (const char* host : {"127.0.0.1", "127.1", "::1", "localhost", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(ResolveListen("--listen", {host, 17}, Reach::kThisHost).ok()) << host;
    EXPECT_TRUE(ResolveListen("--listen", {host, 17}, Reach::kOtherHosts).ok()) << host;
  }
  EXPECT_TRUE(CheckListenAddress("--listen", {"node-1", 17}, Numeric("127.0.0.1"), Reach::kThisHost).ok());
  ExpectListenRefused("0.0.0.0", "0.0.0.0", Reach::kThisHost, "--insecure");
  ExpectListenRefused("node-1", "192.0.2.1", Reach::kThisHost, "(192.0.2.1) is not a loopback address");
  EXPECT_TRUE(CheckListenAddress("--listen", {"0.0.0.0", 17}, Numeric("0.0.0.0"), Reach::kOtherHosts).ok());
}

TEST(ListenAddressTest, NameThatOtherHostsReachIsNoLoopbackAddress) {
  ExpectListenRefused("node-1", "127.0.1.1", Reach::kOtherHosts, "is 127.0.1.1 on this host");
  EXPECT_TRUE(CheckListenAddress("--listen", {"node-1", 17}, Numeric("127.0.1.1"), Reach::kAny).ok());
  EXPECT_TRUE(CheckListenAddress("--listen", {"node-1", 17}, Numeric("192.0.2.1"), Reach::kOtherHosts).ok());
}

TEST(DialAddressTest, OnlyThisHostIsDialled) {
  EXPECT_TRUE(CheckDialsLoopback("--master", {"127.1", 17}).ok());
  EXPECT_EQ(CheckDialsLoopback("--master", {"192.0.2.1", 17}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringway::shell
