// Names of hosts: all their addresses are tried, and they are looked up again whenever something is dialled.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "proto/stream/unique_fd.h"
#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }

// A port whose queue is full: who dials it gets no answer.
class SilentPort {
 public:
  SilentPort(const std::string& host, const std::string& port) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    EXPECT_EQ(::inet_pton(AF_INET, host.c_str(), &address_.sin_addr), 1);
    const net::UniqueFd& listener = sockets_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    EXPECT_EQ(::listen(listener.get(), 0), 0);
    for (int i = 0; i < 10 && Answers(); ++i) continue;
  }
  // Returns whether one more connection stands; it is kept.
  bool Answers() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockets_.emplace_back(fd);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0) return true;
    pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
    return errno != EINPROGRESS || ::poll(&writable, 1, 200) != 0;
  }

 private:
  sockaddr_in address_{};
  std::vector<net::UniqueFd> sockets_;
};

// Programs that see a file of the test's in the place of /etc/hosts.
class ResolveTest : public testing::Test {
 protected:
  void SetUp() override {
    Say({"127.0.0.1"});
    const Finished tried = RunToEnd(Seeing({"/bin/true"}));
    if (tried.code != 0) GTEST_SKIP() << "no mount namespaces here: " << tried.err;
  }
  // The addresses of "the-master".
  void Say(const std::vector<std::string>& addresses) {
    std::ofstream hosts(hosts_, std::ios::trunc);
    for (const std::string& address : addresses) hosts << address << " the-master\n";
  }
  std::vector<std::string> Seeing(const std::vector<std::string>& command) const {
    std::vector<std::string> out = {
        "/usr/bin/unshare", "--mount", "--", "/bin/sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"", hosts_};
    out.insert(out.end(), command.begin(), command.end());
    return out;
  }

  Cluster cluster_{{.daemons = 0, .host = "127.0.0.2"}};
  const std::string port_ = PortOf(cluster_.master_address());
  const std::string hosts_ = cluster_.directory() / "hosts";
};

TEST_F(ResolveTest, AddressWithoutAnAnswerLeavesTimeForTheNext) {
  SilentPort silent("127.0.0.3", port_);  // on 127.0.0.1 anybody's connection may have the port
  ASSERT_FALSE(silent.Answers());
  Say({"127.0.0.3", "127.0.0.2"});
  std::vector<std::string> status = {RINGWAY_CTL, "--master", "the-master:" + port_, "--timeout-ms", "2000"};
  for (const std::string& option : cluster_.TlsOptionsOf("m")) status.push_back(option);
  status.emplace_back("status");
  const Finished asked = RunToEnd(Seeing(status));
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_NE(asked.out.find("term 1"), std::string::npos) << asked.out;
}

// Debian's installer gives the host's own name such an address.
TEST_F(ResolveTest, MasterThatOthersAreToReachRefusesANameOfTheLoopbackInterface) {
  Say({"127.0.1.1"});
  const std::vector<std::string> master = {RINGWAY_MASTER, "--journal", "none", "--listen", "the-master:0"};
  std::vector<std::string> exposed = master;
  exposed.emplace_back("--insecure");
  const Finished refused = RunToEnd(Seeing(exposed));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("is 127.0.1.1 on this host"), std::string::npos) << refused.err;
  const Finished http = RunToEnd(
      Seeing({RINGWAY_MASTER, "--journal", "none", "--listen", "127.0.0.2:0", "--http", "the-master:0", "--insecure"}));
  EXPECT_EQ(http.code, 2);
  EXPECT_NE(http.err.find("--http the-master:0 is 127.0.1.1 on this host"), std::string::npos) << http.err;
  std::vector<std::string> local = master;
  local.emplace_back("--check-config");
  const Finished taken = RunToEnd(Seeing(local));
  EXPECT_EQ(taken.code, 0) << taken.err;
}

}  // namespace
}  // namespace ringway::e2e
