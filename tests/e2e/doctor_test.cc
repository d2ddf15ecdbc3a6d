// ringwayctl doctor on hosts that are broken, one way at a time, and on one that is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/stream/address.h"
#include "proto/tls/authority.h"
#include "tests/e2e/closed_port.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/network_namespace.h"

namespace ringway::e2e {
namespace {

using std::chrono::days;
using testing::HasSubstr;

using Argv = std::vector<std::string>;

struct Report {
  int code = -1;
  nlohmann::json findings;

  // The worst finding of a check; of several, the first.
  nlohmann::json Of(const std::string& check) const {
    const Argv levels = {"ok", "skip", "warn", "fail"};
    const auto rank = [&](const nlohmann::json& one) {
      return std::find(levels.begin(), levels.end(), one.value("level", "")) - levels.begin();
    };
    nlohmann::json worst = nlohmann::json::object();
    for (const nlohmann::json& one : findings) {
      if (one.value("check", "") == check && (worst.empty() || rank(one) > rank(worst))) worst = one;
    }
    return worst;
  }
  std::string LevelOf(const std::string& check) const { return Of(check).value("level", "none"); }
  std::string WhatOf(const std::string& check) const { return Of(check).value("what", ""); }
  std::string RemedyOf(const std::string& check) const { return Of(check).value("remedy", ""); }
};

Report Examine(const Argv& options, const Argv& wrapper = {}) {
  Argv argv = wrapper;
  argv.insert(argv.end(), {RINGWAY_CTL, "--json", "doctor"});
  argv.insert(argv.end(), options.begin(), options.end());
  const Finished run = RunToEnd(argv);
  EXPECT_EQ(run.err, "");
  const nlohmann::json report = nlohmann::json::parse(run.out, nullptr, false);
  EXPECT_TRUE(report.is_object()) << run.out;
  if (!report.is_object()) return {};
  EXPECT_EQ(run.code, report["serious"] == 0 ? 0 : 1) << run.out;
  return {.code = run.code, .findings = report["findings"]};
}

std::string Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

// Returns the shortest configuration of a daemon.
std::string ConfigOf(const std::string& master, const std::string& socket) {
  return "master = \"" + master + "\"\nsocket = \"" + socket + "\"\nlisten = \"127.0.0.1:7401\"\n";
}

// Answers whoever asks with the same status, as long as it lives. One client at a time.
class FakeMaster {
 public:
  explicit FakeMaster(const std::string& status) {
    const auto any = net::ResolveBlocking({.host = "127.0.0.1", .port = 0}, true);
    listening_ = net::ListenTcp(any.value()).value();
    address_ = net::ToString(net::LocalAddress(listening_.get()).value());
    control::FromMaster reply;
    reply.mutable_status()->set_json(status);
    AppendFrame(reply, frame_);
    EXPECT_EQ(::pipe(end_), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeMaster() {
    ::close(end_[1]);
    thread_.join();
    ::close(end_[0]);
  }
  FakeMaster(const FakeMaster&) = delete;
  FakeMaster& operator=(const FakeMaster&) = delete;

  const std::string& address() const { return address_; }

 private:
  void Serve() {
    for (;;) {
      pollfd polled[] = {{.fd = listening_.get(), .events = POLLIN, .revents = 0},
                         {.fd = end_[0], .events = POLLIN, .revents = 0}};
      if (::poll(polled, 2, -1) < 0 || polled[1].revents != 0) return;
      const net::UniqueFd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) continue;
      char byte = 0;
      if (::recv(client.get(), &byte, 1, 0) <= 0) continue;  // it only looked whether somebody is here
      (void)::send(client.get(), frame_.data(), frame_.size(), MSG_NOSIGNAL);
      while (::recv(client.get(), &byte, 1, 0) > 0) {
      }
    }
  }

  net::UniqueFd listening_;
  std::string address_;
  std::string frame_;
  int end_[2] = {-1, -1};
  std::thread thread_;
};

// ---- what runs, and what does not

TEST(DoctorTest, WithoutOptionsItLooksAtTheHostAlone) {
  if (std::filesystem::exists("/etc/ringway")) GTEST_SKIP() << "Ringway is installed here";
  const Report report = Examine({});
  EXPECT_EQ(report.LevelOf("master"), "skip");
  EXPECT_EQ(report.LevelOf("daemon"), "skip");
  EXPECT_NE(report.LevelOf("descriptors"), "none");
}

// In a /run of its own.
TEST(DoctorTest, WithoutOptionsItLooksAtTheDaemonsUsualSocket) {
  if (std::filesystem::exists("/etc/ringway")) GTEST_SKIP() << "Ringway is installed here";
  if (RunToEnd({"/usr/bin/unshare", "-m", "/bin/true"}).code != 0) GTEST_SKIP() << "no mount namespaces here";
  Cluster cluster({.daemons = 1, .tls = false});
  const Argv wrapper = {"/usr/bin/unshare",
                        "-m",
                        "/bin/sh",
                        "-c",
                        "mount -t tmpfs none /run && mkdir /run/ringway && ln -s " + cluster.socket(0) +
                            " /run/ringway/ringwayd.sock && exec \"$@\"",
                        "sh"};
  const Report report = Examine({}, wrapper);
  EXPECT_EQ(report.LevelOf("daemon"), "ok") << report.WhatOf("daemon");
  EXPECT_NE(report.WhatOf("daemon").find("daemon d0 runs"), std::string::npos) << report.WhatOf("daemon");
  Argv status = wrapper;
  status.insert(status.end(), {RINGWAY_CTL, "status"});
  EXPECT_NE(RunToEnd(status).out.find("daemon d0 "), std::string::npos);
}

TEST(DoctorTest, HealthyClusterHasNothingSerious) {
  Cluster cluster({.daemons = 0, .tls = true});
  for (int i = 0; i < 2; ++i) (void)cluster.AddDaemon({"--memory-max", "64M"});
  const Sessions trainers = cluster.JoinWorld(2);
  Argv options = {"--master", cluster.master_address(), "--socket", cluster.socket(0)};
  const Argv secured = cluster.TlsOptionsOf("op");
  options.insert(options.end(), secured.begin(), secured.end());
  const Report both = Examine(options);
  EXPECT_EQ(both.code, 0) << both.findings.dump(1);
  EXPECT_EQ(both.LevelOf("certificates"), "ok");
  EXPECT_EQ(both.LevelOf("master"), "ok");
  EXPECT_EQ(both.LevelOf("daemon"), "ok");
  EXPECT_EQ(both.LevelOf("versions"), "ok");
  const nlohmann::json protocol = {kProtocolVersionMin, kProtocolVersionMax};
  EXPECT_EQ(cluster.MasterStatus()["master"]["protocol"], protocol);
  EXPECT_EQ(cluster.DaemonStatus(0)["daemon"]["protocol"], protocol);
  EXPECT_EQ(both.LevelOf("clock"), "ok") << both.WhatOf("clock");
  EXPECT_EQ(both.LevelOf("ports"), "ok");
  EXPECT_THAT(both.WhatOf("journal"), HasSubstr("master.db"));
  const Report daemon_alone = Examine({"--socket", cluster.socket(1)});
  EXPECT_EQ(daemon_alone.LevelOf("daemon"), "ok");
  EXPECT_EQ(daemon_alone.LevelOf("master"), "skip");
  EXPECT_THAT(daemon_alone.WhatOf("master"), HasSubstr("takes certificates"));
}

// Questions of doctor leave no warnings in the master's log.
TEST(DoctorTest, LookingAlarmsNobody) {
  for (const bool tls : {false, true}) {
    Cluster cluster({.daemons = 1, .tls = tls});
    Argv options = {"--master", cluster.master_address(), "--socket", cluster.socket(0)};
    if (tls) options.insert(options.end(), {"--tls-dir", cluster.certificates()});
    EXPECT_EQ(Examine(options).LevelOf("master"), "ok");
    cluster.master().Signal(SIGTERM);
    EXPECT_EQ(cluster.master().Wait(), 0);
    EXPECT_THAT(cluster.master().Err(), testing::Not(HasSubstr("stranger_closed")));
  }
}

TEST(DoctorTest, HumanReadsALineEach) {
  Cluster cluster({.daemons = 1, .tls = false});
  const Finished run = RunToEnd({RINGWAY_CTL, "--master", cluster.master_address(), "doctor"});
  EXPECT_EQ(run.code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("ok    master        the master at " + cluster.master_address() + " answers\n"));
  EXPECT_EQ(RunToEnd({RINGWAY_CTL, "doctor", "--nonsense"}).code, 2);
  EXPECT_EQ(RunToEnd({RINGWAY_CTL, "--master", "nonsense", "doctor"}).code, 2);
}

TEST(DoctorTest, MasterAndDaemonThatAreNotThereFail) {
  const ClosedPort closed;
  const TemporaryDirectory directory;
  const Report report = Examine({"--master", closed.address(), "--socket", directory / "none.sock"});
  EXPECT_EQ(report.code, 1);
  EXPECT_EQ(report.LevelOf("master"), "fail");
  EXPECT_EQ(report.LevelOf("daemon"), "fail");
  EXPECT_EQ(report.LevelOf("clock"), "skip");
}

TEST(DoctorTest, DaemonWithoutItsMasterFails) {
  Cluster cluster({.daemons = 1, .tls = false});
  cluster.master().Signal(SIGTERM);
  EXPECT_EQ(cluster.master().Wait(), 0);
  ASSERT_TRUE(Eventually([&] { return !cluster.MasterConnected(0); }));
  const Report report = Examine({"--socket", cluster.socket(0)});
  EXPECT_EQ(report.LevelOf("daemon"), "fail");
  EXPECT_EQ(report.LevelOf("master"), "fail") << "the daemon says where it should be";
}

// ---- certificates

class DoctorCertificatesTest : public testing::Test {
 protected:
  DoctorCertificatesTest() { EXPECT_TRUE(tls::InitAuthority(directory_ / "ca").ok()); }

  tls::CredentialFiles Issued(const std::string& name, days begins = days(-1), days ends = days(100),
                              ProcessRole role = ProcessRole::kDaemon) const {
    const std::string out = directory_ / name;
    const Status status = tls::Issue({.dir = directory_ / "ca", .out = out}, {.role = role, .name = name},
                                     {.begins = begins, .ends = ends});
    EXPECT_TRUE(status.ok()) << status.text();
    return tls::FilesOf(out, name);
  }
  // Examines the host of a daemon that would run with these files.
  Report With(const tls::CredentialFiles& files) const {
    return Examine({"--daemon-config",
                    Write(directory_ / "ringwayd.toml", "tls-ca = \"" + files.ca + "\"\ntls-cert = \"" + files.cert +
                                                            "\"\ntls-key = \"" + files.key + "\"\n")});
  }
  void ExpectFail(const tls::CredentialFiles& files, const std::string& what, const std::string& remedy) const {
    const Report report = With(files);
    EXPECT_EQ(report.code, 1) << what;
    EXPECT_EQ(report.LevelOf("certificates"), "fail") << what;
    EXPECT_THAT(report.WhatOf("certificates"), HasSubstr(what));
    EXPECT_THAT(report.RemedyOf("certificates"), HasSubstr(remedy));
  }

  TemporaryDirectory directory_;
};

TEST_F(DoctorCertificatesTest, EachFaultIsFoundWithItsRemedy) {
  const tls::CredentialFiles good = Issued("good");
  EXPECT_EQ(With(good).LevelOf("certificates"), "ok");
  ExpectFail({.ca = good.ca, .cert = good.cert + "x", .key = good.key}, "cannot read", "certs issue");
  ExpectFail({.ca = good.ca, .cert = good.cert, .key = Issued("other").key}, "is not the key of", "certs issue");
  ExpectFail({.ca = good.ca, .cert = directory_ / "ca/ca.pem", .key = directory_ / "ca/ca.key"}, "no identity",
             "certs issue");
  ExpectFail(Issued("late", days(-9), days(-1)), "ended on", "reload ringwayd");
  ExpectFail(Issued("early", days(1)), "begins on", "NTP");
  ExpectFail(Issued("boss", days(-1), days(100), ProcessRole::kMaster), "needs one with the role daemon", "--tls-cert");
  EXPECT_TRUE(tls::InitAuthority(directory_ / "stranger").ok());
  ExpectFail({.ca = directory_ / "stranger/ca.pem", .cert = good.cert, .key = good.key}, "not accepted", "ca.pem");
  std::filesystem::permissions(good.key, std::filesystem::perms(0644));
  ExpectFail(good, "every user", "chmod o= " + good.key);
  EXPECT_EQ(With(Issued("soon", days(-1), days(20))).LevelOf("certificates"), "warn");
}

// ---- what the programs' files and options say

TEST(DoctorTest, BrokenConfigFileFails) {
  const TemporaryDirectory directory;
  const Report report = Examine({"--daemon-config", Write(directory / "ringwayd.toml", "socket = \n")});
  EXPECT_EQ(report.LevelOf("config"), "fail");
  EXPECT_THAT(report.WhatOf("config"), HasSubstr("line 1"));
  EXPECT_EQ(Examine({"--master-config", directory / "none.toml"}).LevelOf("config"), "fail");
}

TEST(DoctorTest, FileThatNobodyWritesToIsNotWaitedFor) {
  const TemporaryDirectory directory;
  const std::string fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const Report report = Examine({"--daemon-config", fifo, "--timeout-ms", "100"});
  EXPECT_THAT(report.WhatOf("config"), HasSubstr("not read in time"));
  const Report keys = Examine({"--tls-ca", fifo, "--tls-cert", fifo, "--tls-key", fifo, "--timeout-ms", "100"});
  EXPECT_THAT(keys.WhatOf("certificates"), HasSubstr("not read in time"));
}

TEST(DoctorTest, ConfigFileThatItsProgramRefusesFailsInItsWords) {
  const TemporaryDirectory directory;
  const std::string socket = directory / "d.sock";
  const Report unknown =
      Examine({"--daemon-config", Write(directory / "unknown.toml", ConfigOf("127.0.0.1:1", socket) + "tpyo = 1\n")});
  EXPECT_EQ(unknown.LevelOf("config"), "fail");
  EXPECT_THAT(unknown.WhatOf("config"), HasSubstr("unknown option tpyo"));
  const std::string open = "master = \"127.0.0.1:1\"\nsocket = \"" + socket + "\"\nlisten = \"0.0.0.0:7401\"\n";
  const Report exposed = Examine({"--daemon-config", Write(directory / "exposed.toml", open)});
  EXPECT_EQ(exposed.LevelOf("config"), "fail");
  EXPECT_THAT(exposed.WhatOf("config"), HasSubstr("is not a loopback address"));
  const std::string log = directory / "m.log";
  const Report fine = Examine(
      {"--master-config", Write(directory / "m.toml", "listen = \"127.0.0.1:1\"\nlog-file = \"" + log + "\"\n")});
  EXPECT_EQ(fine.LevelOf("config"), "ok");
  EXPECT_FALSE(std::filesystem::exists(log)) << "looking changes nothing";
}

TEST(DoctorTest, ConfigFilesSayWhereToLook) {
  Cluster cluster({.daemons = 0, .tls = false});
  (void)cluster.AddDaemon({"--memory-max", "64M"});
  const std::string config = ConfigOf(cluster.master_address(), cluster.socket(0));
  EXPECT_EQ(Examine({"--daemon-config", Write(cluster.directory() / "good.toml", config)}).code, 0);
  const Report report =
      Examine({"--daemon-config", Write(cluster.directory() / "bad.toml", config + "congestion = \"no-such\"\n")});
  EXPECT_EQ(report.LevelOf("master"), "ok");
  EXPECT_EQ(report.LevelOf("daemon"), "ok");
  EXPECT_EQ(report.LevelOf("congestion"), "fail") << "ringwayd does not start with it";
  EXPECT_THAT(report.RemedyOf("congestion"), HasSubstr("modprobe tcp_no-such"));
}

TEST(DoctorTest, ProgramsThatTheirFilesAloneNameAreNotMissed) {
  const ClosedPort closed;
  const TemporaryDirectory directory;
  const Report report =
      Examine({"--daemon-config", Write(directory / "d.toml", "socket = \"" + (directory / "none.sock") + "\"\n"),
               "--master-config", Write(directory / "m.toml", "listen = \"" + closed.address() + "\"\n")});
  EXPECT_EQ(report.LevelOf("daemon"), "warn");
  EXPECT_EQ(report.LevelOf("master"), "warn");
}

TEST(DoctorTest, MasterWithoutJournalWarns) {
  const TemporaryDirectory directory;
  Process master(directory, "m", {RINGWAY_MASTER, "--listen", "127.0.0.1:0", "--journal", "none"});
  ASSERT_TRUE(Eventually([&] { return !master.Logged("listening", "address").empty(); }));
  EXPECT_EQ(Examine({"--master", master.Logged("listening", "address")}).LevelOf("journal"), "warn");
}

// ---- limits of the running daemon

TEST(DoctorTest, FewDescriptorsAndTooMuchMemoryFail) {
  Cluster cluster({.daemons = 0, .tls = false});
  const Argv few = {"/bin/sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"};
  const std::size_t index = cluster.AddDaemonAt({"127.0.0.1", few}, {"--memory-max", "60000G"});
  const Report report = Examine({"--socket", cluster.socket(index)});
  EXPECT_EQ(report.LevelOf("descriptors"), "fail");
  EXPECT_THAT(report.WhatOf("descriptors"), HasSubstr("200 files"));
  EXPECT_EQ(report.LevelOf("memory"), "fail");
}

// ---- other hosts

TEST(DoctorTest, PortThatIsAdvertisedAndClosedFails) {
  const ClosedPort closed;
  Cluster cluster({.daemons = 0, .tls = false});
  const std::size_t index = cluster.AddDaemon({"--advertise", closed.address()});
  for (const Argv& options : {Argv{"--socket", cluster.socket(index)}, Argv{"--master", cluster.master_address()}}) {
    const Report report = Examine(options);
    EXPECT_EQ(report.LevelOf("ports"), "fail");
    EXPECT_THAT(report.WhatOf("ports"), HasSubstr(closed.address() + " refuses connections"));
  }
}

TEST(DoctorTest, OtherReleaseOtherProtocolAndOtherTimeAreFound) {
  const FakeMaster newer(R"({"master": {"version": "99.0.0", "protocol": [98, 99], "utc": "2000-01-01T00:00:00Z"}})");
  const Report report = Examine({"--master", newer.address()});
  EXPECT_EQ(report.LevelOf("versions"), "fail");
  EXPECT_THAT(report.WhatOf("versions"), HasSubstr("99.0.0 speaks protocol 98 to 99"));
  EXPECT_EQ(report.LevelOf("clock"), "fail");
  EXPECT_THAT(report.WhatOf("clock"), HasSubstr("behind this host's"));
}

TEST(DoctorTest, PortThatSaysNothingIsNotWaitedForLongerThanAllowed) {
  const auto any = net::ResolveBlocking({.host = "127.0.0.1", .port = 0}, true);
  const net::UniqueFd silent = net::ListenTcp(any.value()).value();
  const std::string address = net::ToString(net::LocalAddress(silent.get()).value());
  const Report report = Examine({"--master", address, "--timeout-ms", "200"});
  EXPECT_EQ(report.LevelOf("master"), "fail");
  EXPECT_THAT(report.WhatOf("ports"), HasSubstr("accepts connections"));
}

TEST(DoctorTest, HostileMasterIsNoMaster) {
  for (const char* status : {"", "[[[[", "{\"master\": 7}"}) {
    const FakeMaster hostile(status);
    EXPECT_EQ(Examine({"--master", hostile.address()}).LevelOf("master"), "fail") << status;
  }
  const FakeMaster liar(
      R"({"master": {"version": "\u001b[2J", "utc": "9999-99-99T99:99:99Z", "journal_path": "/dev/null/x"},
                           "daemons": [{"name": "\n", "address": "nonsense", "connected": true}]})");
  const Finished run = RunToEnd({RINGWAY_CTL, "--master", liar.address(), "doctor"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

// ---- networks

class DoctorNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!island_.error().empty()) GTEST_SKIP() << "no network namespace here: " << island_.error();
    Argv argv = island_.wrapper();
    argv.insert(argv.end(), {RINGWAY_MASTER, "--listen", island_.host_inside() + ":0", "--insecure", "--journal",
                             directory_ / "m.db"});
    master_.emplace(directory_, "master", argv);
    ASSERT_TRUE(Eventually([&] { return !(address_ = master_->Logged("listening", "address")).empty(); }));
  }
  Report Outside(const Argv& more = {}) const {
    Argv options = {"--master", address_};
    options.insert(options.end(), more.begin(), more.end());
    return Examine(options);
  }
  Finished Shell(const std::string& command) const {
    Argv argv = island_.wrapper();
    argv.insert(argv.end(), {"/bin/sh", "-c", command});
    return RunToEnd(argv);
  }

  TemporaryDirectory directory_;
  NetworkNamespace island_;
  std::string address_;
  std::optional<Process> master_;
};

TEST_F(DoctorNetworkTest, PathThatDropsLargePacketsFails) {
  const Report whole = Outside();
  EXPECT_EQ(whole.LevelOf("mtu"), "ok");
  EXPECT_THAT(whole.WhatOf("mtu"), HasSubstr("path MTU 1500"));
  EXPECT_EQ(whole.LevelOf("certificates"), "warn") << "nothing is encrypted";
  EXPECT_EQ(whole.LevelOf("journal"), "ok") << "the master says it from another host, too";
  EXPECT_THAT(master_->Err(), testing::Not(HasSubstr("stranger_closed"))) << "looking alarms nobody";
  island_.DropLarge(1300);
  const Report broken = Outside({"--timeout-ms", "2000"});
  EXPECT_EQ(broken.LevelOf("master"), "ok") << "small packets get through";
  EXPECT_EQ(broken.LevelOf("mtu"), "fail");
  EXPECT_EQ(broken.code, 1);
}

TEST_F(DoctorNetworkTest, HostThatDoesNotAnswerFailsInTime) {
  island_.BlackHole();
  const Report report = Outside({"--timeout-ms", "300"});
  EXPECT_EQ(report.LevelOf("master"), "fail");
  EXPECT_THAT(report.WhatOf("master"), HasSubstr("did not answer in time"));
}

TEST_F(DoctorNetworkTest, DaemonBehindAClosedFirewallIsFoundFromTheMaster) {
  Argv argv = island_.wrapper();
  argv.insert(argv.end(), {RINGWAY_DAEMON, "--master", address_, "--listen", island_.host_inside() + ":0", "--socket",
                           directory_ / "d.sock", "--name", "far", "--insecure", "--advertise", "10.255.255.1:7401"});
  Process daemon(directory_, "d", argv);
  ASSERT_TRUE(Eventually([&] { return !daemon.Logged("ready", "address").empty(); }));
  argv = {"--master", address_};
  const Report report = Examine(argv, island_.wrapper());
  EXPECT_EQ(report.LevelOf("ports"), "fail");
  EXPECT_THAT(report.WhatOf("ports"), HasSubstr("daemon far at 10.255.255.1:7401"));
}

TEST_F(DoctorNetworkTest, SettingsOfTheKernelAreThoseOfItsNetwork) {
  const std::string set =
      "echo 4096 131072 67108864 >/proc/sys/net/ipv4/tcp_rmem; "
      "echo 4096 65536 67108864 >/proc/sys/net/ipv4/tcp_wmem; ";
  if (Shell(set + "echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle").code != 0) {
    GTEST_SKIP() << "the kernel's settings cannot be changed here";
  }
  const Argv options = {"--master", address_};
  EXPECT_EQ(Examine(options, island_.wrapper()).LevelOf("sysctl"), "ok");
  EXPECT_EQ(Shell("echo 1 >/proc/sys/net/ipv4/tcp_slow_start_after_idle").code, 0);
  const Report report = Examine(options, island_.wrapper());
  EXPECT_EQ(report.LevelOf("sysctl"), "warn");
  EXPECT_THAT(report.RemedyOf("sysctl"), HasSubstr("sysctl -w net.ipv4.tcp_slow_start_after_idle='0'"));
}

}  // namespace
}  // namespace ringway::e2e
