// What programs tell over HTTP, by a client that is not ours.
#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

// Status code and body; 0 if nobody answers.
std::pair<int, std::string> Get(const std::string& address, const std::string& path) {
  httplib::Client client("http://" + address);
  client.set_read_timeout(kPatience);
  const auto answer = client.Get(path);
  return answer ? std::pair(answer->status, answer->body) : std::pair(0, httplib::to_string(answer.error()));
}

class HttpTest : public testing::TestWithParam<bool> {
 protected:
  HttpTest() : cluster_({.daemons = 0, .master_options = {"--http", "127.0.0.1:0"}, .tls = GetParam()}) {
    for (int i = 0; i < 2; ++i) (void)cluster_.AddDaemon({"--http", "127.0.0.1:0"});
  }
  static std::string AddressOf(const Process& process) { return process.Logged("http", "address"); }

  Cluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(Tls, HttpTest, testing::Bool());

TEST_P(HttpTest, MetricsFollowWhatHappens) {
  const Sessions ranks = cluster_.JoinWorld(2);
  Round round(ranks);
  round.Submit();
  (void)round.Check();
  EXPECT_TRUE(Eventually([&] {
    const std::string text = Get(AddressOf(cluster_.daemon(0)), "/metrics").second;
    return text.find("ringway_ops_done_total{group=\"job\",rank=\"") != std::string::npos &&
           text.find("ringway_group_world_size{group=\"job\",rank=\"") != std::string::npos;
  }));
  const auto [code, text] = Get(AddressOf(cluster_.master()), "/metrics");
  EXPECT_EQ(code, 200) << text;
  EXPECT_NE(text.find("\nringway_daemons_connected 2.0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nringway_group_world_size{group=\"job\"} 2.0\n"), std::string::npos) << text;
  EXPECT_EQ(Get(AddressOf(cluster_.master()), "/").first, 404);
}

TEST_P(HttpTest, HealthAndReadinessTellApartADeadMasterAndAStoppedProcess) {
  const std::string daemon = AddressOf(cluster_.daemon(0));
  for (const char* path : {"/healthz", "/readyz"}) {
    EXPECT_EQ(Get(daemon, path).first, 200) << path;
    EXPECT_EQ(Get(AddressOf(cluster_.master()), path).first, 200) << path;
  }
  cluster_.master().Kill();
  EXPECT_TRUE(Eventually([&] { return Get(daemon, "/readyz").first == 503; }));
  EXPECT_NE(Get(daemon, "/readyz").second.find("no connection to the master"), std::string::npos);
  EXPECT_EQ(Get(daemon, "/healthz").first, 200);
  cluster_.RestartMaster();
  EXPECT_TRUE(Eventually([&] { return Get(daemon, "/readyz").first == 200; }));
}

TEST(HttpOptionTest, PortInUseIsALine) {
  Cluster cluster({.daemons = 0, .master_options = {"--http", "127.0.0.1:0"}});
  std::string taken;
  ASSERT_TRUE(Eventually([&] { return !(taken = cluster.master().Logged("http", "address")).empty(); }));
  const Finished second = RunToEnd({RINGWAY_MASTER, "--listen", "127.0.0.1:0", "--http", taken});
  EXPECT_EQ(second.code, 2);
  EXPECT_NE(second.err.find("--http: cannot listen"), std::string::npos) << second.err;
}

}  // namespace
}  // namespace ringway::e2e
