// The HTTP endpoints of the programs, read by a client of another library.
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>

#include <csignal>

#include "proto/stream/unique_fd.h"
#include "proto/tls/authority.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/tls_client.h"

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
  EXPECT_EQ(Get(AddressOf(cluster_.master()), "/none").first, 404);
}

TEST_P(HttpTest, MasterServesItsPageAndWhatThatShows) {
  const Sessions ranks = cluster_.JoinWorld(2);
  const std::string master = AddressOf(cluster_.master());
  const auto page = Get(master, "/");
  EXPECT_EQ(page.first, 200);
  EXPECT_NE(page.second.find("<h1>Ringway</h1>"), std::string::npos);
  for (const char* file : {"/page.css", "/page.js", "/pictures.js"}) EXPECT_EQ(Get(master, file).first, 200) << file;
  EXPECT_TRUE(Eventually([&] {
    const auto live = nlohmann::json::parse(Get(master, "/live.json").second, nullptr, false);
    if (!live.is_object() || live["groups"].empty() || live["events"].empty()) return false;
    const auto& group = live["groups"][0];
    return group["paths"]["ranks"].size() == 2 && group["peers"][0]["live"].is_object();
  }));
  EXPECT_EQ(Get(AddressOf(cluster_.daemon(0)), "/").first, 404) << "a daemon has none";
  EXPECT_EQ(Get(AddressOf(cluster_.daemon(0)), "/live.json").first, 404);
}

TEST_P(HttpTest, HealthAndReadinessTellApartADeadMasterAndAStoppedProcess) {
  const std::string daemon = AddressOf(cluster_.daemon(0));
  for (const char* path : {"/healthz", "/readyz"}) {
    EXPECT_TRUE(Eventually([&] { return Get(daemon, path).first == 200; })) << path;
    EXPECT_TRUE(Eventually([&] { return Get(AddressOf(cluster_.master()), path).first == 200; })) << path;
  }
  cluster_.master().Kill();
  EXPECT_TRUE(Eventually([&] { return Get(daemon, "/readyz").first == 503; }));
  const auto why = [&] { return Get(daemon, "/readyz").second; };
  EXPECT_TRUE(Eventually([&] { return why().find("no connection to the master") != std::string::npos; }));
  EXPECT_TRUE(Eventually([&] { return Get(daemon, "/healthz").first == 200; }));
  cluster_.RestartMaster();
  EXPECT_TRUE(Eventually([&] { return Get(daemon, "/readyz").first == 200; }));
}

class HttpClientTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Eventually([&] { return !(address_ = cluster_.master().Logged("http", "address")).empty(); }));
  }

  Cluster cluster_{{.daemons = 0, .master_options = {"--http", "127.0.0.1:0"}}};
  std::string address_;
};

TEST_F(HttpClientTest, RequestWithoutEndIsCutOff) {
  for (const std::string& piece : {std::string(1000, 'a'), std::string("a: b\r\n")}) {
    const net::UniqueFd fd = ConnectTo(address_);
    ssize_t sent = ::send(fd.get(), "GET /metrics HTTP/1.1\r\n", 23, MSG_NOSIGNAL);
    std::size_t total = 0;
    while (sent > 0 && total < std::size_t{64} << 20) {  // what the kernel takes is far less
      sent = ::send(fd.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
      total += piece.size();
    }
    EXPECT_LT(sent, 0) << "64 MiB of one request were read";
  }
  EXPECT_TRUE(Eventually([&] { return Get(address_, "/healthz").first == 200; }));
}

TEST_F(HttpClientTest, ClientThatSaysNothingMoreDoesNotKeepTheProcess) {
  std::vector<net::UniqueFd> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(ConnectTo(address_));
    ASSERT_EQ(::send(clients.back().get(), "GET", 3, MSG_NOSIGNAL), 3);
  }
  cluster_.master().Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return cluster_.master().Exited().has_value(); }));
  EXPECT_EQ(cluster_.master().Exited(), 0);
}

TEST(HttpCertificateTest, EndOfTheCertificateIsNoOutage) {
  const TemporaryDirectory directory;
  const std::string certificates = directory / "tls";
  ASSERT_TRUE(tls::InitAuthority(certificates).ok());
  const tls::Validity soon{.begins = -std::chrono::minutes(1), .ends = std::chrono::seconds(kSanitized ? 30 : 15)};
  ASSERT_TRUE(
      tls::Issue({.dir = certificates, .out = certificates}, {.role = ProcessRole::kMaster, .name = "m"}, soon).ok());
  const Process master(directory, "master",
                       {RINGWAY_MASTER, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--journal", "none",
                        "--tls-dir", certificates});
  std::string address;
  ASSERT_TRUE(Eventually([&] { return !(address = master.Logged("http", "address")).empty(); }));
  EXPECT_TRUE(Eventually([&] {
    return Get(address, "/metrics").second.find("\nringway_certificate_days_left -1.0\n") != std::string::npos;
  })) << Get(address, "/metrics").second;
  EXPECT_EQ(Get(address, "/healthz").first, 200);
  EXPECT_EQ(Get(address, "/readyz").first, 200);
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
