#include "proto/shell/query.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ringway::shell {
namespace {

// A socket that listens on loopback and accepts nothing.
class QueryTest : public testing::Test {
 protected:
  QueryTest() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    endpoint_ = {"127.0.0.1", ntohs(address.sin_port)};
  }
  ~QueryTest() override { ::close(listening_); }

  Status Ask() const { return QueryMaster(endpoint_, std::chrono::milliseconds(50)).status(); }

  const int listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Endpoint endpoint_;
};

TEST_F(QueryTest, RefusedConnectionIsAMasterThatDoesNotRun) {
  const Status status = Ask();
  EXPECT_EQ(status.code(), Code::kMasterUnreachable);
  EXPECT_NE(status.text().find("start ringway-master"), std::string::npos) << status.text();
}

// With its backlog full the kernel drops what comes, as a firewall does.
TEST_F(QueryTest, DroppedPacketsAreTheAddressOrAFirewall) {
  ASSERT_EQ(::listen(listening_, 0), 0);
  Status status = Ask();
  for (int i = 0; i < 10 && status.code() == Code::kTimeout; ++i) status = Ask();
  EXPECT_EQ(status.code(), Code::kMasterUnreachable);
  EXPECT_NE(status.text().find("firewall"), std::string::npos) << status.text();
  EXPECT_EQ(status.text().find("start ringway-master"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace ringway::shell
