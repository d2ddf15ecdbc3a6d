// Mutual TLS with the real programs: who has a certificate works as without, nobody else gets anywhere, and no running
// operation notices the attempt.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>

#include "proto/control.pb.h"
#include "proto/tls/authority.h"
#include "tests/e2e/siege.h"
#include "tests/e2e/tls_client.h"

namespace ringway::e2e {
namespace {

using std::chrono::days;

class TlsTest : public SiegeTest {
 protected:
  TlsTest() : SiegeTest({.daemons = 3, .tls = true}) {}
  explicit TlsTest(const ClusterOptions& options) : SiegeTest(options) {}

  tls::CredentialFiles FilesOf(const std::string& name) const { return tls::FilesOf(cluster_.certificates(), name); }
  // A certificate of the cluster's authority, or of a stranger's, of a time from now.
  tls::CredentialFiles Issued(const Identity& identity, days from = days(0), days to = days(9), bool stranger = false) {
    const std::string dir = stranger ? cluster_.directory() / "stranger" : cluster_.certificates();
    if (stranger && !std::filesystem::exists(dir)) {
      EXPECT_TRUE(tls::InitAuthority(dir).ok());
    }
    const std::string out = cluster_.directory() / ("issued" + std::to_string(++issued_));
    const Status status =
        tls::Issue({.dir = dir, .out = out}, identity, {.begins = from - std::chrono::minutes(1), .ends = to});
    EXPECT_TRUE(status.ok()) << status.text();
    return tls::FilesOf(out, identity.name);
  }
  std::string PortOf(std::size_t index) { return cluster_.daemon(index).Logged("ready", "address"); }
  std::vector<std::string> Ports() { return {cluster_.master_address(), PortOf(0)}; }
  std::uint64_t IdOf(std::size_t index) const { return good_[index]->peer_id(); }

  // Returns what a port answers to a hello, a status request, or whatever opens a conversation there.
  static std::string Converse(const std::string& port, bool is_master, const TlsClientOptions& options) {
    TlsClient client(port, options);
    if (is_master) {
      control::ToMaster request;
      request.mutable_status();
      client.Say(request);
    } else {
      client.Say(HelloOf(1, 2));
    }
    return client.Hear();
  }
  static control::LinkHello HelloOf(std::uint64_t from, std::uint64_t to) {
    control::LinkHello hello;
    hello.set_version_min(kProtocolVersionMin);
    hello.set_version_max(kProtocolVersionMax);
    hello.set_group("job");
    hello.set_from(from);
    hello.set_to(to);
    hello.set_control(true);
    hello.set_known(true);
    return hello;
  }
  // At both kinds of ports, while the good ones reduce.
  void ExpectNoWord(const TlsClientOptions& options) {
    Reduce([&] {
      EXPECT_EQ(Converse(cluster_.master_address(), true, options), "");
      EXPECT_EQ(Converse(PortOf(0), false, options), "");
    });
  }
  Finished Ctl(std::vector<std::string> words, const std::string& name) const {
    std::vector<std::string> argv = {RINGWAY_CTL, "--master", cluster_.master_address(), "--timeout-ms", "3000"};
    const std::vector<std::string> secured = name.empty() ? std::vector<std::string>() : cluster_.TlsOptionsOf(name);
    argv.insert(argv.end(), secured.begin(), secured.end());
    argv.insert(argv.end(), words.begin(), words.end());
    return RunToEnd(argv);
  }
  // A daemon with these options, which is not of the cluster.
  Process Daemon(const std::vector<std::string>& more) const {
    std::vector<std::string> argv = {RINGWAY_DAEMON, "--master", cluster_.master_address(),          "--listen",
                                     "127.0.0.1:0",  "--socket", cluster_.directory() / "extra.sock"};
    argv.insert(argv.end(), more.begin(), more.end());
    return {cluster_.directory(), "extra", argv};
  }
  static std::vector<std::string> OptionsOf(const tls::CredentialFiles& files) {
    return {"--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key};
  }

 private:
  int issued_ = 0;
};

TEST_F(TlsTest, TrainersReduceAndGoOnAfterALossAndAJoin) {
  EXPECT_EQ(cluster_.DaemonStatus(0)["daemon"]["security"].value("identity", ""), "daemon d0");
  EXPECT_EQ(cluster_.MasterStatus()["master"]["security"].value("identity", ""), "master m");
  cluster_.daemon(2).Kill();
  good_.pop_back();
  Round round(good_, {.reduction = {}, .count = 500'000, .number = 77});
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 2U);
  (void)cluster_.AddDaemon();
  auto newcomer = std::async(std::launch::async, [this] { return Session::Join(cluster_.At(3, "job", 1)); });
  ASSERT_TRUE(Eventually([&] { return UpdateAll(good_).world_size == 3; }));
  auto joined = newcomer.get();
  ASSERT_TRUE(joined.ok()) << joined.status().text();
  good_.push_back(std::move(*joined));
  Reduce();
}

TEST_F(TlsTest, AnybodyOfTheInstallationMayLook) {
  for (const char* name : {"op", "m", "d1"}) {
    const Finished run = Ctl({"status"}, name);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("TLS: master m"), std::string::npos) << run.out;
  }
}

// ---- who is kept out

TEST_F(TlsTest, StrangersGetNoWord) {
  ExpectNoWord({});  // no certificate
  for (const ProcessRole role : {ProcessRole::kMaster, ProcessRole::kDaemon, ProcessRole::kOperator}) {
    ExpectNoWord({.files = Issued({.role = role, .name = "d0"}, days(0), days(9), true)});
  }
  ExpectNoWord({.files = Issued({.name = "d8"}, days(-9), days(-1))});
  ExpectNoWord({.files = Issued({.name = "d8"}, days(2), days(9))});
  ExpectNoWord({.files = FilesOf("d1"), .version = TLS1_2_VERSION});
  for (const std::string& port : Ports()) {
    std::string frame;
    AppendFrame(HelloOf(1, 2), frame);
    for (const std::string& words : {frame, std::string("GET / HTTP/1.1\r\n\r\n"), std::string(70'000, '\xa5')}) {
      const std::string heard = SayAndHear(port, words);
      EXPECT_LE(heard.size(), 7U) << "a TLS alert at most";
    }
    Reduce();
  }
}

TEST_F(TlsTest, ReplayedAndTamperedConnectionsGetNowhere) {
  for (const std::string& port : Ports()) {
    TlsClient client(port, {.files = FilesOf("d1")});
    control::ToMaster request;
    request.mutable_status();
    client.Say(request);
    ASSERT_TRUE(client.shook());
    const std::string wire = client.wire();
    ASSERT_GT(wire.size(), 800U);
    Reduce([&] {
      for (std::size_t flip = 0; flip <= wire.size(); flip += wire.size() / 16) {
        std::string replayed = wire;
        if (flip < wire.size()) replayed[flip] = static_cast<char>(replayed[flip] ^ 4);
        for (const std::size_t length : {replayed.size(), replayed.size() / 2}) {
          const net::UniqueFd fd = ConnectTo(port);
          (void)::send(fd.get(), replayed.data(), length, MSG_NOSIGNAL);
        }
      }
      // Whole, and kept open: the server's side of the handshake and an alert, no record that answers.
      EXPECT_LT(SayAndHear(port, wire).size(), 3000U);
    });
  }
}

TEST_F(TlsTest, NobodySpeaksForAnother) {
  cluster_.Issue("d9", "daemon");
  const auto refusal_of = [&](const std::string& name, const std::string& says) {
    TlsClient client(cluster_.master_address(), {.files = FilesOf(name)});
    control::ToMaster message;
    message.mutable_hello()->set_version_min(kProtocolVersionMin);
    message.mutable_hello()->set_version_max(kProtocolVersionMax);
    message.mutable_hello()->set_name(says);
    message.mutable_hello()->set_address(PortOf(1));
    client.Say(message);
    control::FromMaster reply;
    EXPECT_TRUE(client.Hear(reply));
    return reply.refusal().text();
  };
  EXPECT_NE(refusal_of("d9", "d1").find("certificate of daemon d9"), std::string::npos);
  EXPECT_TRUE(Eventually([&] {
    return cluster_.master().Logged("connection_refused", "from") == "127.0.0.1" &&
           cluster_.master().Logged("connection_refused", "identity").find("daemon d9") != std::string::npos;
  })) << cluster_.master().Err();
  EXPECT_NE(refusal_of("op", "op").find("--role daemon"), std::string::npos);
  EXPECT_NE(refusal_of("m", "m").find("--role daemon"), std::string::npos);
  // A peer's links are its daemon's.
  const auto reply_to = [&](const std::string& name, std::size_t from) {
    TlsClient client(PortOf(0), {.files = FilesOf(name)});
    client.Say(HelloOf(IdOf(from), IdOf(0)));
    control::LinkReply reply;
    reply.set_text("no answer");
    (void)client.Hear(reply);
    return reply.text();
  };
  const std::size_t other = IdOf(1) > IdOf(0) ? 1 : 2;  // it dials control links
  if (IdOf(other) > IdOf(0)) {
    EXPECT_NE(reply_to("d9", other).find("and this is daemon d9"), std::string::npos);
  }
  EXPECT_EQ(reply_to("op", other), "no answer");
  EXPECT_EQ(reply_to("m", other), "no answer");
  Reduce();
}

// Nobody is lost while a daemon is stopped for as long as another needs to start.
class PatientTlsTest : public TlsTest {
 protected:
  PatientTlsTest() : TlsTest({.daemons = 3, .detect_ms = 60'000, .tls = true}) {}
};

TEST_F(PatientTlsTest, AddressOfAnotherReplacesNobody) {
  const std::string address = PortOf(2);
  cluster_.Issue("d9", "daemon");
  cluster_.daemon(2).Freeze();
  std::vector<std::string> options = cluster_.TlsOptionsOf("d9");
  options.insert(options.end(), {"--advertise", address});
  {
    Process intruder = Daemon(options);
    EXPECT_TRUE(Eventually([&] { return !intruder.Logged("master_up", "daemon").empty(); })) << intruder.Err();
  }
  cluster_.daemon(2).Signal(SIGCONT);
  Reduce();
}

TEST(TlsClusterTest, OnlyWhomTheMasterAllowsMayJoin) {
  Cluster cluster({.daemons = 3, .master_options = {"--allow", "job=d0,d1;other-*=d2"}, .tls = true});
  const Sessions two = [&] {
    std::vector<JoinOptions> options = {cluster.At(0, "job", 2), cluster.At(1, "job", 2)};
    return cluster.JoinAll(options);
  }();
  ASSERT_EQ(two.size(), 2U);
  const auto refused = Session::Join(cluster.At(2, "job", 1));
  EXPECT_EQ(refused.status().code(), Code::kJoinRefused);
  EXPECT_NE(refused.status().text().find("daemon d2 may not join group job"), std::string::npos)
      << refused.status().text();
  EXPECT_TRUE(Session::Join(cluster.At(2, "other-1", 1)).ok());
}

TEST_F(TlsTest, EvictionsAreAnOperators) {
  const auto evict = [&](const std::string& name) {
    return Ctl({"evict", "--group", "job", "--peer", std::to_string(IdOf(2))}, name);
  };
  const Finished refused = evict("d1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--role operator"), std::string::npos) << refused.err;
  Reduce();
  EXPECT_EQ(evict("op").code, 0);
  good_.pop_back();
  Reduce();
}

// ---- daemons that should not come up

TEST_F(TlsTest, ProgramsSayWhatIsWrongWithTheirCertificates) {
  const auto expect = [&](const std::vector<std::string>& options, const std::string& word) {
    Process daemon = Daemon(options);
    EXPECT_EQ(daemon.Wait(), 2) << word;
    EXPECT_NE(daemon.Err().find(word), std::string::npos) << daemon.Err();
  };
  expect({"--tls-dir", cluster_.directory() / "nowhere"}, "cannot read");
  expect({"--tls-dir", cluster_.certificates(), "--name", "d7"}, "no certificate of daemon d7");
  expect({"--tls-ca", FilesOf("d1").ca}, "go together");
  expect({"--tls-dir", cluster_.certificates(), "--insecure"}, "not both");
  expect(OptionsOf(FilesOf("op")), "needs one with the role daemon");
  std::vector<std::string> renamed = OptionsOf(FilesOf("d1"));
  renamed.insert(renamed.end(), {"--name", "d2"});
  expect(renamed, "is not the name on");
  expect(OptionsOf(Issued({.name = "d8"}, days(-9), days(-1))), "ended on");
  const Finished named = RunToEnd({RINGWAY_MASTER, "--listen", "127.0.0.1:0", "--allow", "job=d1"});
  EXPECT_NE(named.err.find("--allow needs certificates"), std::string::npos) << named.err;
  const Finished plain = Ctl({"status"}, "");
  EXPECT_EQ(plain.code, 2);
  EXPECT_NE(plain.err.find("--tls-dir"), std::string::npos) << plain.err;
}

TEST_F(TlsTest, StrangersDaemonLearnsThatTheMasterIsOfAnotherAuthority) {
  const tls::CredentialFiles files = Issued({.name = "d8"}, days(0), days(9), true);
  Process daemon = Daemon(OptionsOf(files));
  EXPECT_TRUE(Eventually([&] {
    return daemon.Logged("master_unreachable", "reason").find("not accepted") != std::string::npos;
  })) << daemon.Err();
}

// ---- the first hundred

TEST_F(TlsTest, SlowHandshakesByTheHundredKeepNobodyOut) {
  std::vector<net::UniqueFd> crowd;
  TlsClient client(cluster_.master_address(), {.files = FilesOf("d1")});
  for (int i = 0; i < 400; ++i) {
    for (const std::string& port : Ports()) {
      crowd.push_back(ConnectTo(port));
      (void)::send(crowd.back().get(), client.wire().data(), static_cast<std::size_t>(i % 300), MSG_NOSIGNAL);
    }
  }
  Reduce();
  EXPECT_EQ(Ctl({"status"}, "op").code, 0);
  (void)cluster_.AddDaemon();
}

// ---- revocation

TEST_F(TlsTest, RevokedDaemonIsOutAtOnceAndNobodyElseNotices) {
  const auto hear = [&](Process& process, const std::string& event) {
    process.Signal(SIGHUP);
    EXPECT_TRUE(Eventually([&] { return !process.Logged(event, event == "tls_reloaded" ? "until" : "error").empty(); }))
        << process.Err();
  };
  const Finished revoke = RunToEnd({RINGWAY_CTL, "certs", "revoke", "d2", "--dir", cluster_.certificates()});
  EXPECT_EQ(revoke.code, 0) << revoke.err;
  for (const char* words : {"daemon d2", "ringway-master first", "ringwayctl 0.9"}) {
    EXPECT_NE(revoke.out.find(words), std::string::npos) << revoke.out;
  }
  Round round(good_, {.reduction = {}, .count = 4'000'000, .number = 5});
  round.Submit();
  hear(cluster_.master(), "tls_reloaded");
  hear(cluster_.daemon(0), "tls_reloaded");
  hear(cluster_.daemon(1), "tls_reloaded");
  hear(cluster_.daemon(2), "tls_reload_failed");
  EXPECT_NE(cluster_.daemon(2).Logged("tls_reload_failed", "error").find("is revoked"), std::string::npos);
  EXPECT_EQ(cluster_.daemon(2).Logged("tls_reload_failed", "revoked"), "1");
  EXPECT_EQ(cluster_.daemon(0).Logged("tls_reloaded", "revoked"), "1");
  EXPECT_TRUE(round.Wait(0, kPatience).ok());
  EXPECT_TRUE(round.Wait(1, kPatience).ok());
  good_.pop_back();
  const OpResult after = RoundsUntil(good_, [](const OpResult& result) { return result.world_size == 2; });
  EXPECT_EQ(after.world_size, 2U);
  EXPECT_TRUE(Eventually([&] { return !cluster_.MasterConnected(2); }));
  EXPECT_TRUE(cluster_.MasterConnected(0) && cluster_.MasterConnected(1));
  Process back = Daemon(OptionsOf(FilesOf("d2")));
  EXPECT_EQ(back.Wait(), 2);
  EXPECT_NE(back.Err().find("is revoked"), std::string::npos) << back.Err();
  std::filesystem::remove(FilesOf("d2").cert);
  std::filesystem::remove(FilesOf("d2").key);
  cluster_.daemon(2).Kill();
  cluster_.RestartDaemon(2);
  EXPECT_TRUE(Eventually([&] { return cluster_.MasterConnected(2); })) << "a new certificate of that name is accepted";
}

// ---- renewal

TEST_F(TlsTest, CertificatesAreSwappedUnderLoad) {
  const auto renew = [&](const std::string& name, const std::string& role) {
    std::filesystem::remove(FilesOf(name).cert);
    std::filesystem::remove(FilesOf(name).key);
    const Finished issue = RunToEnd(
        {RINGWAY_CTL, "certs", "issue", name, "--role", role, "--dir", cluster_.certificates(), "--days", "20"});
    EXPECT_EQ(issue.code, 0) << issue.err;
  };
  const std::string before = cluster_.DaemonStatus(0)["daemon"]["security"].value("until", "");
  Reduce([&] {
    renew("m", "master");
    cluster_.master().Signal(SIGHUP);
    for (int i = 0; i < 3; ++i) {
      renew("d" + std::to_string(i), "daemon");
      cluster_.daemon(i).Signal(SIGHUP);
    }
    EXPECT_TRUE(Eventually([&] { return !cluster_.master().Logged("tls_reloaded", "until").empty(); }));
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(Eventually([&] { return !cluster_.daemon(i).Logged("tls_reloaded", "until").empty(); }));
    }
  });
  const nlohmann::json now = cluster_.DaemonStatus(0)["daemon"]["security"];
  EXPECT_NE(now.value("until", ""), before);
  EXPECT_LE(now.value("days_left", 0), 20);
  EXPECT_FALSE(cluster_.daemon(0).Logged("tls_ends_soon", "days_left").empty());
  EXPECT_TRUE(cluster_.MasterConnected(0)) << "what stood goes on";
  (void)cluster_.AddDaemon();
  // One that cannot be used changes nothing.
  std::ofstream(FilesOf("d0").cert, std::ios::trunc) << "no certificate";
  cluster_.daemon(0).Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return !cluster_.daemon(0).Logged("tls_reload_failed", "error").empty(); }));
  Reduce();
}

}  // namespace
}  // namespace ringway::e2e
